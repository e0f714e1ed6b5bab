package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// evil is text of a server that must not reach a terminal: colours and a title, by C0 and by C1,
// text that reads backwards, hidden text, and bytes that are not UTF-8.
const evil = "\x1b[31mred\x1b]0;title\a\u009b2J\u202egpj\u2066x\u200bhidden\x7f\xff"

// harmless returns the characters in text that must not be there.
func harmless(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%q is not UTF-8", text)
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && (!unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return fmt.Errorf("%q in %q", r, text)
		}
	}
	return nil
}

// Every command escapes the text of servers, archives and other processes on both
// outputs, and prints all of it.
func TestForeignText(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	name := "evil\x1b[31m\norbweaver: all is well"
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	site := http.NewServeMux()
	site.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "User-agent: *\nDisallow: /private%s\nSitemap: http://a.example/%[1]s\n", evil)
	})
	site.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset="+strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, evil))
		fmt.Fprintf(w, `<base href="/%s"><a href="/%[1]s">%[1]s</a>`, evil)
	})
	serve := func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		return s
	}
	plain, secure := serve(site), serve(site)
	plain.Start()
	defer plain.Close()
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	secure.StartTLS()
	defer secure.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write(ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))

	// Another program has taken the port of a killed crawl.
	imposter := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Status") {
			b, err := proto.Marshal(&pb.StatusResponse{Agents: []*pb.AgentStatus{
				{State: strings.ToValidUTF8(evil, "")}}})
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			w.Write(b)
			return
		}
		http.Error(w, evil+"\nall is well", http.StatusServiceUnavailable)
	}))
	imposter.Start()
	defer imposter.Close()
	access := must.Get(json.Marshal(node.APIAccess{Addr: imposter.Listener.Addr().String(), Token: "x"}))(t)
	write(filepath.Join(dir, crawldir.APIFile), string(access))

	http1 := "HTTP/1.1 200 OK\r\nContent-Type: " + evil + "\r\n\r\nbody"
	record := fmt.Sprintf("WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/%s\r\n"+
		"WARC-Date: 2026-01-02T03:04:05Z\r\n"+
		"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n"+
		"Content-Type: application/http; msgtype=response\r\n"+
		"Content-Length: %d\r\n\r\n%s\r\n\r\n", evil, len(http1), http1)
	warc := filepath.Join(dir, "a.warc")
	write(warc, record)

	for _, c := range []struct {
		args []string
		says string // on either output
		json bool
	}{
		{[]string{"check", "robots", "--allow-private", plain.URL + "/private" + "/x"},
			`Sitemap http://a.example/\u001b[31mred`, false},
		{[]string{"check", "robots", "--allow-private", "--file", warc, plain.URL}, "", false},
		{[]string{"check", "links", "--allow-private", plain.URL}, "1 link;", false},
		{[]string{"check", "links", "--allow-private", "--ca", ca,
			"--connect-to", "a.example:443:" + secure.Listener.Addr().String(), "https://a.example/"},
			`evil\u001b[31m\norbweaver: all is well`, false},
		{[]string{"check", "url", "http://a.example/" + evil}, "canonical", false},
		{[]string{"ctl", "--dir", dir, "status"}, `\u001b[31mred`, false},
		{[]string{"ctl", "--dir", dir, "status", "--json"}, `\u001b[31mred`, true},
		{[]string{"ctl", "--dir", dir, "explain", "a.example"}, `\u001b[31mred`, false},
		{[]string{"warc", "ls", warc}, `\u001b[31mred`, false},
		{[]string{"warc", "ls", "--json", warc}, `\u001b[31mred`, true},
		{[]string{"warc", "verify", "--warnings", warc}, "ERRORS", false},
		{[]string{"warc", "extract", warc, "--url", evil}, `no capture of \u001b[31mred`, false},
		{[]string{"crawl", "--" + evil}, `\u001b[31mred`, false},
	} {
		var stdout, stderr bytes.Buffer
		run(c.args, &stdout, &stderr)
		for _, text := range []string{stdout.String(), stderr.String()} {
			if err := harmless(text); err != nil {
				t.Errorf("%q: %v", c.args, err)
			}
			if strings.Contains(text, "\norbweaver: all is well") || strings.Contains(text, "\nall is well") {
				t.Errorf("%q: foreign text stands as a line of its own:\n%s", c.args, text)
			}
		}
		if text := stdout.String() + stderr.String(); !strings.Contains(text, c.says) {
			t.Errorf("%q does not say %s:\n%s", c.args, c.says, text)
		}
		if c.json && !json.Valid(stdout.Bytes()) {
			t.Errorf("%q: no JSON: %s", c.args, stdout.String())
		}
	}

	// Output for programs is unchanged, byte for byte.
	var stdout, stderr bytes.Buffer
	if code := run([]string{"warc", "extract", warc, "--offset", "0"}, &stdout, &stderr); code != 0 ||
		stdout.String() != record {
		t.Errorf("extract: %d, %q\n%s", code, stdout.String(), stderr.String())
	}
}

// Code of this program writes to the standard outputs only through run's writers, which escape.
func TestOneOutput(t *testing.T) {
	files := must.Get(filepath.Glob("*.go"))(t)
	aside := regexp.MustCompile(`os\.Std(out|err)|\bprintln?\(|fmt\.Print|\blog\.(Print|Fatal)`)
	allowed := map[string]int{
		"main.go":    2, // main gives the outputs to run, on one line
		"display.go": 2, // the live display, which escapes what it draws
		// the outputs of the command that testweb runs
		"testweb_command.go": 2,
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b := must.Get(os.ReadFile(name))(t)
		if n := len(aside.FindAllIndex(b, -1)); n > allowed[name] {
			t.Errorf("%s writes to the standard outputs itself, %d times", name, n)
		}
	}
}
