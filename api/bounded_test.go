package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
)

// A call is bounded, and one whose answer may wait by as much more as it may wait for.
func TestACallMayTakeAsMuchLongerAsItsAnswerMayWait(t *testing.T) {
	router := chi.NewRouter()
	api := humachi.New(router, huma.DefaultConfig("test", "1"))
	api.UseMiddleware(bounded)
	var left time.Duration
	for path, wait := range map[string]any{"/never": nil, "/asked": preferredWait, "/always": func(http.Header) time.Duration { return maxClaimWait }} {
		op := huma.Operation{Method: http.MethodPost, Path: path, OperationID: path[1:], Metadata: map[string]any{waitMetadata: wait}}
		huma.Register(api, op, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
			until, _ := ctx.Deadline()
			left = time.Until(until)
			return nil, nil
		})
	}
	for _, call := range []struct {
		path, prefer string
		want         time.Duration
	}{
		{"/never", "", answerTimeout}, {"/never", "wait=20", answerTimeout},
		{"/asked", "", answerTimeout}, {"/asked", "wait=20", answerTimeout + 20*time.Second}, {"/asked", "wait=31", answerTimeout},
		{"/always", "", answerTimeout + maxClaimWait},
	} {
		r := httptest.NewRequest(http.MethodPost, call.path, nil)
		r.Header.Set("Prefer", call.prefer)
		left = 0
		router.ServeHTTP(httptest.NewRecorder(), r)
		if left > call.want || left < call.want-5*time.Second {
			t.Errorf("%s with Prefer: %s may take %s, want %s", call.path, call.prefer, left, call.want)
		}
	}
}
