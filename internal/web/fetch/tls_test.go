package fetch

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testcost"
)

// authority signs certificates for tests.
type authority struct {
	tb   testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(tb testing.TB) *authority {
	a := &authority{tb: tb, pool: x509.NewCertPool()}
	a.key = newKey(tb)
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test Authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key)
	a.cert, _ = x509.ParseCertificate(der)
	a.pool.AddCert(a.cert)
	return a
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(tb)
	return key
}

// sign makes a certificate of key. If the authority has no certificate yet, the new one signs itself.
func (a *authority) sign(c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return der
}

func (a *authority) configUntil(name string, until time.Time) *tls.Config {
	key := newKey(a.tb)
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
	}, key)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func (a *authority) config(name string) *tls.Config {
	return a.configUntil(name, time.Now().Add(time.Hour))
}

func serveTLS(cfg *tls.Config, serve func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		tc := tls.Server(c, cfg)
		defer tc.Close()
		serve(tc)
	}
}

func TestTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	old := ca.config("a.example")
	old.MaxVersion = tls.VersionTLS11
	garbage := func(c net.Conn) { io.WriteString(c, "\x16\x03\x01\xff\xff garbage and more of it") }
	for _, c := range []struct {
		name     string
		serve    func(net.Conn)
		want     string
		insecure string // outcome with Insecure
		retry    bool
	}{
		{"good", serveTLS(ca.config("a.example"), each(okReply)), "complete", "complete", false},
		{"unknown authority", serveTLS(stranger.config("a.example"), each(okReply)), "tls", "complete", false},
		{"wrong name", serveTLS(ca.config("b.example"), each(okReply)), "tls", "complete", false},
		{"expired", serveTLS(ca.configUntil("a.example", time.Now().Add(-time.Hour)), each(okReply)), "tls", "complete",
			false},
		{"old version", serveTLS(old, each(okReply)), "tls", "tls", false},
		{"plain HTTP", each("HTTP/1.1 400 Bad\r\n\r\n"), "tls", "tls", false},
		{"plain HTTP at once", func(c net.Conn) { io.WriteString(c, okReply) }, "tls", "tls", false},
		{"garbage", garbage, "tls", "tls", true},
		{"closed", func(net.Conn) {}, "tls", "tls", true},
		{"silent", func(c net.Conn) { io.Copy(io.Discard, c) }, "timeout-connect", "timeout-connect", true},
	} {
		addr := loopback(t, func(conn net.Conn) {
			if c.name == "plain HTTP" {
				// A ClientHello has no empty line, so answer the first bytes.
				conn.Read(make([]byte, 4096))
				io.WriteString(conn, "HTTP/1.1 400 Bad\r\n\r\n")
				return
			}
			c.serve(conn)
		})
		for _, insecure := range []bool{false, true} {
			cfg := shortTimes
			cfg.CA, cfg.ConnectTo, cfg.Insecure, cfg.TLSTimeout = ca.pool, []string{"::" + addr}, insecure,
				200*time.Millisecond
			if c.want != "timeout-connect" {
				cfg.TLSTimeout = 20 * time.Second
			}
			f := mustNew(t, cfg)
			r := mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/")})
			check(t, r)
			want := c.want
			if insecure {
				want = c.insecure
			}
			if outcome(r) != want {
				t.Errorf("%s (insecure %v): got %s %v, want %s", c.name, insecure, outcome(r), r.Failure, want)
			}
			if r.Failure != nil && c.name != "garbage" && c.name != "closed" && r.Failure.Retryable() != c.retry {
				t.Errorf("%s: %v: got retryable %v", c.name, r.Failure, r.Failure.Retryable())
			}
			if r.Failure == nil {
				first := r.Secure
				if r = mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/2")}); !r.Reused {
					t.Errorf("%s: the connection was not kept", c.name)
				}
				if r.Secure != first || first.Version != tls.VersionTLS13 || first.Cipher == 0 {
					t.Errorf("%s: got %+v, then %+v", c.name, first, r.Secure)
				}
			}
		}
	}
}

// The client sends and verifies the URL's name, and resumes a session.
func TestTLSNameAndResumption(t *testing.T) {
	ca := newAuthority(t)
	cfg := ca.config("a.example")
	var names []string
	var resumed []bool
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		names = append(names, h.ServerName)
		return nil, nil
	}
	addr := loopback(t, func(c net.Conn) {
		tc := tls.Server(c, cfg)
		defer tc.Close()
		br := bufio.NewReader(tc)
		if _, err := readRequest(br); err != nil {
			return
		}
		resumed = append(resumed, tc.ConnectionState().DidResume)
		io.WriteString(tc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	})
	file := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}),
		0o600))
	f := mustNew(t, Config{CAFile: file, ConnectTo: []string{"a.example:443:" + addr}})
	for range 2 {
		r := mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/")})
		if outcome(r) != "complete" {
			t.Fatalf("got %s %v, want complete", outcome(r), r.Failure)
		}
	}
	if len(names) != 2 || names[0] != "a.example" || len(resumed) != 2 || resumed[0] || !resumed[1] {
		t.Errorf("got server names %q, resumed %v", names, resumed)
	}
	must.Do(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	if _, err := New(Config{CAFile: file}); err == nil {
		t.Error("New with a CA file without certificates: got no error")
	}
	if _, err := New(Config{CAFile: file + ".absent"}); !os.IsNotExist(err) && err == nil {
		t.Error("New with an absent CA file: got no error")
	}
}

// A session is resumed over the next connection to the same host only. It is not resumed if the
// certificate is no longer trusted, however it was trusted before.
func TestTLSResumption(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := ca.config("*.example")
		cfg.MaxVersion = version
		// The server knows what was resumed. All hosts share the ticket key.
		var mu sync.Mutex
		resumed := map[string]bool{}
		addr := loopback(t, func(c net.Conn) {
			tc := tls.Server(c, cfg)
			defer tc.Close()
			if _, err := readRequest(bufio.NewReader(tc)); err != nil {
				return
			}
			st := tc.ConnectionState()
			mu.Lock()
			resumed[st.ServerName] = st.DidResume
			mu.Unlock()
			io.WriteString(tc, okReply)
		})
		config := func() Config {
			c := shortTimes
			c.CA, c.ConnectTo, c.IdleKeep = ca.pool, []string{"::" + addr}, -1
			return c
		}
		get := func(f *Fetcher, host, want string, again bool) {
			t.Helper()
			r := mustFetch(t, f, Request{URL: mustURL(t, "https://"+host+"/")})
			mu.Lock()
			defer mu.Unlock()
			if outcome(r) != want || r.Resumed != again || want == "complete" && resumed[host] != again {
				t.Errorf("TLS %x, %s: got %s %v, resumed %v (server: %v); want %s, %v",
					version, host, outcome(r), r.Failure, r.Resumed, resumed[host], want, again)
			}
		}
		f := mustNew(t, config())
		get(f, "a.example", "complete", false)
		get(f, "a.example", "complete", true)
		get(f, "b.example", "complete", false) // another name
		get(f, "a.example", "complete", true)
		get(f, "b.example", "complete", true)
		get(f, "c.other.example", "tls", false) // a name that the certificate does not have

		few := config()
		few.TLSSessions = 1
		f = mustNew(t, few)
		get(f, "a.example", "complete", false)
		get(f, "b.example", "complete", false)
		get(f, "a.example", "complete", false) // dropped in favour of b
		none := config()
		none.TLSSessions = -1
		f = mustNew(t, none)
		get(f, "a.example", "complete", false)
		get(f, "a.example", "complete", false)

		// A server with large certificates fills no memory.
		fat := ca.config("*.example")
		for range 80 {
			fat.Certificates[0].Certificate = append(fat.Certificates[0].Certificate, ca.cert.Raw)
		}
		slim := cfg.Certificates
		cfg.Certificates = fat.Certificates
		f = mustNew(t, config())
		get(f, "a.example", "complete", false)
		get(f, "a.example", "complete", false)
		cfg.Certificates = slim
		get(f, "a.example", "complete", false)
		get(f, "a.example", "complete", true)

		// A session that was made without verification is not trusted.
		loose := config()
		loose.CA, loose.Insecure = stranger.pool, true
		f = mustNew(t, loose)
		get(f, "a.example", "complete", false)
		get(f, "a.example", "complete", true)
		f.dialer.tls.InsecureSkipVerify = false
		get(f, "a.example", "tls", false)
		// A session is not resumed if its authority is no longer trusted, or if its certificate has
		// expired.
		f = mustNew(t, config())
		get(f, "a.example", "complete", false)
		f.dialer.tls.RootCAs = stranger.pool
		get(f, "a.example", "tls", false)
		old := config()
		var later atomic.Int64
		old.Clock = testclock.Func(func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
		f = mustNew(t, old)
		get(f, "a.example", "complete", false)
		get(f, "a.example", "complete", true)
		later.Store(int64(2 * time.Hour))
		f.dialer.tls.Time = old.Clock.Now
		r := mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/")})
		if r.Failure == nil || r.Resumed {
			t.Errorf("TLS %x: the session of an expired certificate was resumed", version)
		}
	}
}

// BenchmarkTLSSessionMemory measures the memory of a session if each host has its own certificate.
// It helps to choose Config.TLSSessions.
func BenchmarkTLSSessionMemory(b *testing.B) {
	ca := newAuthority(b)
	cfg := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := ca.config(h.ServerName)
		return &c.Certificates[0], nil
	}}
	addr := loopback(b, func(c net.Conn) {
		tc := tls.Server(c, cfg)
		defer tc.Close()
		if _, err := readRequest(bufio.NewReader(tc)); err == nil {
			io.WriteString(tc, okReply)
		}
	})
	for b.Loop() {
		f := mustNew(b, Config{CA: ca.pool, ConnectTo: []string{"::" + addr}, IdleKeep: -1})
		const sessions = 2000
		before := testcost.Heap()
		for i := range sessions {
			mustFetch(b, f, Request{URL: mustURL(b, "https://h"+strconv.Itoa(i)+".example/")}).Release()
		}
		b.ReportMetric(float64(testcost.Heap()-before)/sessions, "B/session")
		runtime.KeepAlive(f)
	}
}

// BenchmarkIdleMemory measures the memory of an idle connection in our process, after a page.
func BenchmarkIdleMemory(b *testing.B) {
	server := startBenchServer(b)
	for _, secure := range []bool{false, true} {
		b.Run("tls="+strconv.FormatBool(secure), func(b *testing.B) {
			for b.Loop() {
				f := mustNew(b, Config{CA: server.pool(), AllowPrivate: true, IdleKeep: time.Hour, TLSSessions: -1,
					MaxIdle: 4096})
				const conns = 1000
				for i := range conns {
					must.Do(b, fetchOnce(context.Background(), f,
						Request{URL: mustURL(b, server.url(i, secure, "/i")), Addr: hostAddr(i)}))
				}
				with := testcost.Heap()
				f.Close()
				b.ReportMetric(float64(with-testcost.Heap())/conns, "B/conn")
			}
		})
	}
}
