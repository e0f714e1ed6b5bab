package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// A gate decides which requests are served.
//
//	Host   names this server: a page of a foreign name that resolves to this address cannot call (DNS rebinding)
//	token  of the operator or of a reader, in the header or as a cookie
//	origin of a browser's request with a cookie: a page of this server, whatever the method
//	role   a reader may only make calls that the .proto file marks NO_SIDE_EFFECTS, and read the metrics
//
// Wrong tokens are counted by address. Beyond wrongMost in a minute, requests of the address that lack a right token
// are refused as "too many". An address that is not loopback is then refused with any token. On loopback, several users
// share the address: a right token is accepted there, so that no other user can lock the operator out. A token has
// 130 random bits, so guessing is hopeless at any rate.
type gate struct {
	tokens [operates + 1]string // by role
	leaf   *x509.Certificate    // nil without TLS
	origin *http.CrossOriginProtection
	wrong  wrongs
	refuse *connect.ErrorWriter
}

// A role is what a caller may do.
type role int

const (
	stranger role = iota
	reader        // calls that change nothing
	operates
)

func (r role) String() string { return [...]string{"", "reader", "operator"}[r] }

// cookieName is the name of the cookie of a browser that has logged in. It has the port by which the browser calls,
// because a browser sends a cookie to all ports of a machine: so each agent of a machine, and each tunnel to an agent,
// has a cookie of its own. With TLS the name has the prefix __Host-, which keeps other hosts of the domain from setting
// it.
func (g *gate) cookieName(r *http.Request) string {
	name := "orbweaver"
	if g.leaf != nil {
		name = "__Host-orbweaver"
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			name += "-" + strconv.FormatUint(n, 10)
		}
	}
	return name
}

func newGate(cfg Config) (*gate, error) {
	g := &gate{origin: http.NewCrossOriginProtection(), refuse: connect.NewErrorWriter(),
		wrong: wrongs{clock: clock.Or(cfg.Clock), by: map[netip.Prefix]*wrongCount{}}}
	g.tokens[reader], g.tokens[operates] = cfg.ReaderToken, cfg.Token
	if cfg.Cert != nil {
		if g.leaf = cfg.Cert.Leaf; g.leaf == nil {
			var err error
			if g.leaf, err = x509.ParseCertificate(cfg.Cert.Certificate[0]); err != nil {
				return nil, fmt.Errorf("api: the certificate: %w", err)
			}
		}
	}
	return g, nil
}

// changing and streaming are the paths of calls that change something, and of streams.
var changing, streaming = kinds()

func kinds() (changing, streaming map[string]bool) {
	changing, streaming = map[string]bool{}, map[string]bool{}
	services := pb.File_operator_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			m := methods.Get(j)
			path := "/" + string(services.Get(i).FullName()) + "/" + string(m.Name())
			changing[path] = !harmless(m)
			streaming[path] = m.IsStreamingServer() || m.IsStreamingClient()
		}
	}
	return changing, streaming
}

// harmless reports whether the .proto file says that a call has no side effects.
func harmless(m protoreflect.MethodDescriptor) bool {
	options, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok &&
		options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// named serves requests whose Host is this server: an IP address, localhost, or a name of the certificate. A browser
// sends a foreign name if a foreign page is to reach this server.
func (g *gate) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.isName(r.Host) {
			http.Error(w, fmt.Sprintf("the Host %.100q is no name of this server: call it by an IP address, by "+
				"localhost, or by a name in its certificate", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *gate) isName(host string) bool {
	name, local := inbound.IsLocalHost(host)
	return local || g.leaf != nil && name != "" && g.leaf.VerifyHostname(name) == nil
}

// roleOf returns the role of a token, and of the cookie that stands for it.
func (g *gate) roleOf(secret string, form func(token string) string) role {
	is := stranger
	for _, r := range []role{reader, operates} {
		if g.tokens[r] != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(form(g.tokens[r]))) == 1 {
			is = r
		}
	}
	return is
}

func plainToken(token string) string { return token }

// cookieOf returns the value of the cookie for a token. It is not the token, so that a cookie that leaks to another
// port of the machine is not one either, and it ends with the run.
func cookieOf(token string) string {
	h := hmac.New(sha256.New, []byte(token))
	io.WriteString(h, "orbweaver console")
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// caller returns the role of a request. byCookie reports that the cookie proves it; tried, that there was a secret.
func (g *gate) caller(r *http.Request) (is role, byCookie, tried bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		token, _ := strings.CutPrefix(header, "Bearer ")
		return g.roleOf(token, plainToken), false, true
	}
	if c, err := r.Cookie(g.cookieName(r)); err == nil {
		return g.roleOf(c.Value, cookieOf), true, false // a cookie of an earlier run is no attack
	}
	return stranger, false, false
}

// admit serves requests with a token that permits them.
func (g *gate) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := originOf(r)
		if g.wrong.many(from) && !from.Addr().IsLoopback() {
			tooMany(w)
			return
		}
		is, byCookie, tried := g.caller(r)
		switch {
		case is == stranger && tried && g.wrong.add(from):
			tooMany(w)
			return
		case is == stranger:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "no valid token: send the one in state/api.json of the crawl directory (Authorization: "+
				"Bearer)", http.StatusUnauthorized)
			return
		}
		if byCookie && !g.isOurs(r) {
			http.Error(w, "a page of another server may not call", http.StatusForbidden)
			return
		}
		prove(r)
		if is == reader && (changing[r.URL.Path] || strings.HasPrefix(r.URL.Path, profilePath)) {
			_ = g.refuse.Write(w, r, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("the reader's token "+
				"permits only calls that change nothing; use the one in state/api.json")))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOurs reports whether a browser's request comes from a page of this server, or from the address bar. The method does
// not matter: a browser sends a cookie to all ports of a machine, with the requests of any page there. A browser of
// before 2023 may not say where a request comes from. Then only those are ours that have to have an Origin.
func (g *gate) isOurs(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	return r.Method != http.MethodGet && r.Method != http.MethodHead && g.origin.Check(r) == nil
}

// prove makes the connection one that strangers do not displace.
func prove(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*inbound.Conn); ok {
		c.Prove() // too many proven connections: this one is closed first
	}
}

// maxLogin bounds the bytes of a login.
const maxLogin = 4 << 10

// session tells a browser its role (GET), logs it in (POST, with the token as JSON) or out (DELETE).
func (g *gate) session(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if told := r.Header.Get("Sec-Fetch-Site") != ""; !g.isOurs(r) && (told || r.Method != http.MethodGet) {
		http.Error(w, "a page of another server may not log in", http.StatusForbidden)
		return
	}
	is, _, tried := g.caller(r)
	from := originOf(r)
	if g.wrong.many(from) && !from.Addr().IsLoopback() || is == stranger && tried && g.wrong.add(from) {
		tooMany(w)
		return
	}
	switch r.Method {
	case http.MethodGet:
	case http.MethodDelete:
		is = stranger
		g.setCookie(w, r, "", -1)
	case http.MethodPost:
		var login struct {
			Token string `json:"token"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, maxLogin)).Decode(&login); err != nil {
			http.Error(w, "send the token as JSON: {\"token\": \"…\"}", http.StatusBadRequest)
			return
		}
		if is = g.roleOf(strings.TrimSpace(login.Token), plainToken); is == stranger {
			if g.wrong.add(from) {
				tooMany(w)
				return
			}
			http.Error(w, "this is not the token of the running crawl; state/api.json has it", http.StatusUnauthorized)
			return
		}
		g.setCookie(w, r, cookieOf(g.tokens[is]), 0)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "use GET, POST or DELETE", http.StatusMethodNotAllowed)
		return
	}
	if is != stranger {
		prove(r)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"role": is.String()})
}

func (g *gate) setCookie(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: g.cookieName(r), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true,
		Secure: g.leaf != nil, SameSite: http.SameSiteStrictMode})
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(int(wrongTime.Seconds())))
	w.Header().Set("Connection", "close")
	http.Error(w, "too many wrong tokens; try again in a minute", http.StatusTooManyRequests)
}

const (
	// wrongMost is how many wrong tokens an address may send in wrongTime.
	wrongMost = 10
	wrongTime = time.Minute
	// wrongAddrs bounds the addresses that are counted.
	wrongAddrs = 1024
)

// wrongs counts wrong tokens by address. Safe for concurrent use.
type wrongs struct {
	clock clock.Clock
	mu    sync.Mutex // guards by
	by    map[netip.Prefix]*wrongCount
}

type wrongCount struct {
	n     int
	since time.Time
}

// originOf returns the address of a request. For IPv6 it is the whole /64, because a subscriber has at least one.
func originOf(r *http.Request) netip.Prefix {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	a := ap.Addr().Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() && !a.IsLoopback() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the number of bits fits
	return p
}

// many reports whether an address has sent too many wrong tokens lately.
func (w *wrongs) many(from netip.Prefix) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.by[from]
	return c != nil && c.n > wrongMost && w.clock.Now().Sub(c.since) < wrongTime
}

// add counts a wrong token. It reports whether there are too many of the address.
func (w *wrongs) add(from netip.Prefix) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	c := w.by[from]
	if c == nil || now.Sub(c.since) >= wrongTime {
		if c == nil && len(w.by) >= wrongAddrs {
			w.forget(now)
		}
		c = &wrongCount{since: now}
		w.by[from] = c
	}
	c.n++
	return c.n > wrongMost
}

// forget makes room for an address. Old counts go; if all are new, all go.
func (w *wrongs) forget(now time.Time) {
	maps.DeleteFunc(w.by, func(_ netip.Prefix, c *wrongCount) bool { return now.Sub(c.since) >= wrongTime })
	if len(w.by) >= wrongAddrs {
		clear(w.by)
	}
}
