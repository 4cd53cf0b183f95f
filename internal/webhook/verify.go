package webhook

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// tolerance is how far the timestamp of a signature may be from now, both ways
// (Standard Webhooks 1.0).
const tolerance = 5 * time.Minute

// Verify checks the signature of a webhook and says which part of it is wrong: a
// header that is missing, a timestamp too far from now, or a signature that none of the
// secrets makes. It is what a receiver should do with everything it is sent.
func Verify(h http.Header, body []byte, now time.Time, secrets ...*event.Signer) error {
	id, stamp, signatures := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), h.Get("Webhook-Signature")
	for name, value := range map[string]string{"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signatures} {
		if value == "" {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("webhook-timestamp is no number of seconds")
	}
	if off := now.Sub(time.Unix(seconds, 0)); off.Abs() > tolerance {
		return fmt.Errorf("webhook-timestamp is %s away from now; at most %s are tolerated", off.Abs().Round(time.Second), tolerance)
	}
	known := false
	for signature := range strings.SplitSeq(signatures, " ") {
		if !strings.HasPrefix(signature, "v1,") {
			continue // another version, for receivers that know it
		}
		known = true
		for _, secret := range secrets {
			if hmac.Equal([]byte(signature), []byte(sign([]*event.Signer{secret}, nil, id, stamp, body))) {
				return nil
			}
		}
	}
	if !known {
		return errors.New("webhook-signature holds no v1 signature")
	}
	return errors.New("webhook-signature was not made with this secret over this id, timestamp and body")
}
