package event

import (
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The vectors of the TypeID specification.
func TestIDsAreSpelledAsTypeIDSays(t *testing.T) {
	for hexed, text := range map[string]string{
		"00000000000000000000000000000000": "00000000000000000000000000",
		"00000000000000000000000000000001": "00000000000000000000000001",
		"0000000000000000000000000000000a": "0000000000000000000000000a",
		"00000000000000000000000000000020": "00000000000000000000000010",
		"ffffffffffffffffffffffffffffffff": "7zzzzzzzzzzzzzzzzzzzzzzzzz",
		"0110c8531d0952d8d73e1194e95b5f19": "0123456789abcdefghjkmnpqrs",
		"01890a5dac96774bbcceb302099a8057": "01h455vb4pex5vsknk084sn02q",
	} {
		var id ID
		if _, err := hex.Decode(id[:], []byte(hexed)); err != nil {
			t.Fatal(err)
		}
		if got := id.Text(EventPrefix); got != "evt_"+text {
			t.Errorf("%s is spelled %s, want %s", hexed, got, text)
		}
		if back, err := ParseID(EventPrefix, "evt_"+text); err != nil || back != id {
			t.Errorf("%s is read as %x, %v", text, back, err)
		}
	}
}

func TestEveryIDIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		if back, err := ParseID(DeliveryPrefix, id.Text(DeliveryPrefix)); err != nil || back != id {
			t.Errorf("%x is read back as %x, %v", id, back, err)
		}
	})
}

func TestWhatIsNoIDIsRefused(t *testing.T) {
	for _, bad := range []string{"", "evt_", "evt", "dlv_01h455vb4pex5vsknk084sn02q", "evt_01h455vb4pex5vsknk084sn02", "evt_01h455vb4pex5vsknk084sn02qq",
		"evt_01H455VB4PEX5VSKNK084SN02Q", "evt_8zzzzzzzzzzzzzzzzzzzzzzzzz", "evt_01h455vb4pex5vsknk084sn02u", "evt_01h455vb4pex5vsknk084sn02 ", "evt-01h455vb4pex5vsknk084sn02q"} {
		if id, err := ParseID(EventPrefix, bad); err == nil {
			t.Errorf("%q was read as %x", bad, id)
		}
	}
}

func TestNewIDsAreUUIDv7AndStrictlyIncrease(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	seen := map[ID]bool{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var last ID
			for range 5000 {
				id := NewID(now)
				if id.Compare(last) <= 0 {
					t.Errorf("%x came after %x", id, last)
				}
				if id[6]>>4 != 7 || id[8]>>6 != 2 {
					t.Errorf("%x is no UUIDv7", id)
				}
				last = id
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 20000 {
		t.Errorf("%d different ids of 20000", len(seen))
	}
	later := now.Add(time.Hour)
	if got := NewID(later).Time(); got.UnixMilli() != later.UnixMilli() {
		t.Errorf("an id of %v says %v", later, got)
	}
}

func TestAReplayGetsAWebhookIDOfItsOwn(t *testing.T) {
	id := NewID(time.Now())
	if got := WebhookID(id, 1); got != id.Text(DeliveryPrefix) {
		t.Errorf("got %s", got)
	}
	if got := WebhookID(id, 3); got != id.Text(DeliveryPrefix)+"_3" {
		t.Errorf("got %s", got)
	}
}
