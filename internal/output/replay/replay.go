package replay

import (
	"crypto/rand"
	"embed"
	"html/template"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
)

//go:embed assets
var assets embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"day": day}).
	ParseFS(assets, "assets/*.html"))

// A Config describes a Server.
type Config struct {
	Archive *captures.Archive
	// Addr is the loopback address and port at which the server is reached.
	Addr string
	// Name tells the reader what is replayed, such as the names of the crawl directories.
	Name string
	// Token is the first part of the viewer's paths. Empty means a random one.
	Token string
	// MaxPage bounds the memory for rewriting: how many bytes of a page are rewritten. The rest is sent
	// as it is, and the bar says so: frame.js changes its links, if it runs. Zero means 32 MiB.
	MaxPage int64
}

// A Server replays an archive. It is an http.Handler for the viewer and all content origins.
type Server struct {
	archive                  *captures.Archive
	addr, port, name         string
	token, secret            string
	maxPage                  int64
	viewerPolicy, pagePolicy string
	allowlist                string
	// busy bounds how many pages are rewritten at once.
	busy chan struct{}
}

// maxBusy is how many pages are rewritten at once: each takes a few times its size in memory.
const maxBusy = 4

// New returns a Server.
func New(cfg Config) *Server {
	_, port, _ := net.SplitHostPort(cfg.Addr)
	s := &Server{archive: cfg.Archive, addr: cfg.Addr, port: port, name: cfg.Name, token: cfg.Token,
		secret: strings.ToLower(rand.Text()[:20]), maxPage: cfg.MaxPage, busy: make(chan struct{}, maxBusy)}
	if s.token == "" {
		s.token = strings.ToLower(rand.Text()[:20])
	}
	if s.maxPage <= 0 {
		s.maxPage = 32 << 20
	}
	content := "http://*.localhost:" + port
	s.viewerPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; frame-src " + content + "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	s.pagePolicy = "default-src " + content + " data: blob: 'unsafe-inline' 'unsafe-eval'; " +
		"connect-src " + content + " data: blob:; object-src " + content + "; base-uri " + content + "; " +
		"form-action " + content + "; frame-src " + content + " data: blob:; " +
		"frame-ancestors http://" + cfg.Addr + " " + content + "; webrtc 'block'; " +
		"sandbox allow-same-origin allow-forms"
	s.allowlist = `("` + content + `/*");redirects=allow`
	return s
}

// URL returns the address of the start page.
func (s *Server) URL() string { return "http://" + s.addr + "/" + s.token + "/" }

// ServeHTTP implements http.Handler. The Host field of the request decides which origin answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.common(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		s.fail(w, http.StatusMethodNotAllowed, "The archive holds what a crawl has read. It cannot receive forms.")
		return
	}
	if r.Host == s.addr {
		s.viewer(w, r)
		return
	}
	p, ok := s.placeOf(r.Host, r.RequestURI)
	if !ok {
		s.fail(w, http.StatusMisdirectedRequest,
			"This is not the address of the replay. Open the URL that \"orbweaver replay\" printed.")
		return
	}
	s.content(w, r, p)
}

// forbidden lists the features of a browser that no page of the server may use.
const forbidden = "" +
	"accelerometer=(), ambient-light-sensor=(), attribution-reporting=(), autoplay=(self), bluetooth=(), " +
	"browsing-topics=(), camera=(), clipboard-read=(), clipboard-write=(), display-capture=(), " +
	"document-domain=(), encrypted-media=(), fullscreen=(), gamepad=(), geolocation=(), gyroscope=(), hid=(), " +
	"identity-credentials-get=(), idle-detection=(), join-ad-interest-group=(), keyboard-map=(), local-fonts=(), " +
	"local-network-access=(), magnetometer=(), microphone=(), midi=(), otp-credentials=(), payment=(), " +
	"picture-in-picture=(), private-aggregation=(), publickey-credentials-create=(), " +
	"publickey-credentials-get=(), run-ad-auction=(), screen-wake-lock=(), serial=(), shared-storage=(), " +
	"storage-access=(), usb=(), web-share=(), window-management=(), xr-spatial-tracking=()"

// common sets the fields of every response.
func (s *Server) common(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Cache-Control", "no-store")
	h.Set("Permissions-Policy", forbidden)
	h.Set("Content-Security-Policy", s.viewerPolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// fail answers with a plain message.
func (s *Server) fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a failed write means that the browser has gone
}

// day returns a 14-digit time as a reader would write it.
func day(t string) string {
	v, err := time.Parse(captures.TimeFormat, t)
	if err != nil {
		return t
	}
	return v.Format("2 January 2006, 15:04:05")
}
