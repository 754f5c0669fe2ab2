package serve

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what a server counts, for Prometheus. No label holds anything
// that a client chooses.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // op, code
	seconds  *prometheus.HistogramVec // op
	bytes    *prometheus.CounterVec   // direction
	refused  *prometheus.CounterVec   // why
	inFlight prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tarn_serve_requests_total", Help: "Requests that were answered, by what was asked and the status of HTTP.",
		}, []string{"op", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tarn_serve_request_seconds", Help: "Time from a request's header to the end of its answer.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600},
		}, []string{"op"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tarn_serve_bytes_total", Help: "Bytes of bodies, by direction: in from clients, out to them.",
		}, []string{"direction"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tarn_serve_refused_total", Help: "Requests refused for want of a token, or of a right of it.",
		}, []string{"why"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tarn_serve_in_flight", Help: "Requests that are being answered.",
		}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.bytes, m.refused, m.inFlight,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) count(op string, status int, in, out int64, took time.Duration) {
	if op == "" {
		op = "other"
	}
	m.requests.WithLabelValues(op, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(op).Observe(took.Seconds())
	m.bytes.WithLabelValues("in").Add(float64(in))
	m.bytes.WithLabelValues("out").Add(float64(out))
}

// serveMetrics answers /metrics: to this machine, and to tokens. A proxy on
// this machine says for whom it asks; its clients need a token.
func (s *Server) serveMetrics(a *answer, r *http.Request) error {
	ip := net.ParseIP(remoteHost(r))
	proxied := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("X-Real-Ip") != ""
	if ip == nil || !ip.IsLoopback() || proxied {
		if s.tokens == nil {
			return no(http.StatusForbidden, "", "metrics are for this machine")
		}
		if err := s.permit(a, r, rightMetrics); err != nil {
			return err
		}
		if a.who == "" { // everybody reads, but not this
			return no(http.StatusUnauthorized, "", "a token is needed")
		}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return no(http.StatusMethodNotAllowed, "", "metrics are read")
	}
	promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(a, r)
	return nil
}
