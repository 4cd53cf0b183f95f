package api

import (
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// measuring is a router whose requests are measured, and what was measured: for each
// instrument and set of labels how many there were.
func measuring(t *testing.T) (http.Handler, func() map[string]uint64) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	m, err := newMeter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	router := chi.NewRouter()
	router.Use(withRequestID, m.measured, (&server{log: slog.New(slog.DiscardHandler)}).recoverPanics)
	router.Post("/things/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("four"))
	})
	router.Get("/silent", func(http.ResponseWriter, *http.Request) {})
	router.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("lost") })
	router.Get("/livez", func(http.ResponseWriter, *http.Request) {})
	return router, func() map[string]uint64 {
		t.Helper()
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		found := map[string]uint64{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				switch data := m.Data.(type) {
				case metricdata.Histogram[float64]:
					for _, p := range data.DataPoints {
						found[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Count
					}
				case metricdata.Histogram[int64]:
					for _, p := range data.DataPoints {
						found[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = uint64(p.Sum)
					}
				}
			}
		}
		return found
	}
}

func TestRequestsAreMeasuredByMethodRouteAndStatus(t *testing.T) {
	router, measured := measuring(t)
	ask := func(method, path, body string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = "of-" + strings.ToLower(method) + ".example.com"
		router.ServeHTTP(httptest.NewRecorder(), r)
	}
	for range 2 {
		ask("POST", "/things/1", "abc")
		ask("POST", "/things/2", "de")
		ask("GET", "/silent", "")
		ask("GET", "/panic", "")
		ask("BREW", "/things/1", "")
		ask("STIR", "/things/1", "")
		ask("GET", "/nowhere/1", "")
		ask("GET", "/livez", "")
	}
	const around, after = "http.request.method=", ",network.protocol.name=http,network.protocol.version=1.1,url.scheme=http"
	want := map[string]uint64{}
	for labels, n := range map[string][3]uint64{ // requests, bytes received, bytes sent
		"POST,http.response.status_code=201,http.route=/things/{id}": {4, 10, 16},
		"GET,http.response.status_code=200,http.route=/silent":       {2, 0, 0},
		"GET,http.response.status_code=500,http.route=/panic":        {2, 0, 0},
		"_OTHER,http.response.status_code=405":                       {4, 0, 0},
		"GET,http.response.status_code=404":                          {2, 0, 0},
	} {
		want["http.server.request.duration "+around+labels+after] = n[0]
		want["http.server.request.body.size "+around+labels+after] = n[1]
		want["http.server.response.body.size "+around+labels+after] = n[2]
	}
	got := measured()
	for name := range got { // what our own refusals come to in bytes is not what this is about
		if strings.HasPrefix(name, "http.server.response.body.size ") && !strings.Contains(name, "201") {
			got[name] = want[name]
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
}

func TestABodyOfUnknownLengthIsNotMeasured(t *testing.T) {
	router, measured := measuring(t)
	r := httptest.NewRequest("POST", "/things/1", strings.NewReader("abc"))
	r.ContentLength = -1
	router.ServeHTTP(httptest.NewRecorder(), r)
	for name, n := range measured() {
		if strings.HasPrefix(name, "http.server.request.body.size ") {
			t.Errorf("got %s: %d", name, n)
		}
	}
}

// Nobody makes series, or sums that wrap around, by declaring what is not so.
func TestWhatACallerMakesUpIsMeasuredWithinBounds(t *testing.T) {
	router, measured := measuring(t)
	for minor := range 10 {
		r := httptest.NewRequest("POST", "/things/1", nil)
		r.ProtoMinor, r.ContentLength = minor, math.MaxInt64
		router.ServeHTTP(httptest.NewRecorder(), r)
	}
	got := measured()
	const of = "http.request.method=POST,http.response.status_code=201,http.route=/things/{id},network.protocol.name=http,url.scheme=http,"
	for version, n := range map[string]uint64{"1.0": 1, "1.1": 9} {
		labels := strings.Replace(of, "url.scheme", "network.protocol.version="+version+",url.scheme", 1)
		labels = strings.TrimSuffix(labels, ",")
		if got["http.server.request.duration "+labels] != n || got["http.server.request.body.size "+labels] != n*(maxBulkBytes+1) {
			t.Errorf("HTTP/%s: got %v", version, got)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d series: %v", len(got), got)
	}
}
