package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
)

// An operator is a running crawl. The errors of its calls are for people.
type operator struct {
	pb.OperatorClient
	addr string
	url  string
	http *http.Client
}

const (
	retryFor   = 20 * time.Second
	retryPause = 20 * time.Millisecond
	// answerTime bounds the wait for the header of an answer.
	answerTime = 30 * time.Second
	// answerMost bounds an answer. A status has the names of all blocked hosts.
	answerMost = 64 << 20
	// textMost bounds an error page, and the text of one agent's answer.
	textMost = 1 << 20
)

// open returns the crawl in the directory. Call close when it is not needed any more.
func (c *CtlCmd) open() (operator, error) {
	file := filepath.Join(c.Dir, crawldir.APIFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return operator{}, c.silent()
	}
	if err != nil {
		return operator{}, bad("--dir %s: %s: %v; run ctl as the user who runs the crawl", c.Dir, crawldir.APIFile,
			cause(err))
	}
	var access node.APIAccess
	damaged := json.Unmarshal(b, &access) != nil || access.Addr == ""
	if u, err := url.Parse("http://" + access.Addr); damaged || err != nil || u.Host != access.Addr {
		return operator{}, bad("%s is damaged; stop the crawl and continue it with --resume", file)
	}
	base := "http://" + here(access.Addr)
	if access.Cert != nil {
		base = "https://" + here(access.Addr)
	}
	client := &http.Client{
		Transport: &persistent{access.Token, c.caller(), &http.Transport{
			DialContext:           (&net.Dialer{Timeout: answerTime}).DialContext,
			ResponseHeaderTimeout: answerTime,
			TLSClientConfig:       pinned(access.Cert),
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       retryFor + 2*answerTime,
	}
	plain := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, req)
			if err != nil {
				return nil, c.plain(access.Addr, err)
			}
			return res, nil
		}
	})
	return operator{
		OperatorClient: pb.NewOperatorClient(client, base, connect.WithInterceptors(plain),
			connect.WithReadMaxBytes(answerMost)),
		addr: access.Addr, url: base, http: client,
	}, nil
}

// here returns the address at which this machine reaches an API. The unspecified address stands for all of the
// machine's addresses.
func here(addr string) string {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !ap.Addr().IsUnspecified() {
		return addr
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ap.Port()).String()
}

var errOtherCert = errors.New("it has another certificate than state/api.json says")

// pinned returns the configuration for a server with exactly this certificate, in DER. The crawl directory says which
// it is, so no authority has to vouch for it.
func pinned(cert []byte) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection runs for each handshake, and compares the whole certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, cert) {
				return errOtherCert
			}
			return nil
		},
	}
}

// close closes the connections.
func (o operator) close() { o.http.CloseIdleConnections() }

// caller returns who gives the commands, as a header has it.
func (c *CtlCmd) caller() string { return admin.EscapeBy(cmp.Or(c.by, me())) }

// A persistent sends requests with the token and the name of the caller. If the crawl closes the connection without an
// answer, it sends the request again for up to retryFor. A crawl under a flood of connections closes those whose token
// it has not read yet (see package inbound). Every command may be repeated.
type persistent struct {
	token string
	by    string // who calls, as a header has it
	next  *http.Transport
}

// RoundTrip implements http.RoundTripper. An answer that is not a call's becomes a refusal, because package connect
// would drop its text.
func (p *persistent) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	ctx := req.Context()
	for end := time.Now().Add(retryFor); ; {
		try := req.Clone(ctx)
		try.Header.Set("Authorization", "Bearer "+p.token)
		try.Header.Set(admin.By, p.by)
		if req.Body != nil {
			try.Body, try.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			try.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		}
		res, err := p.next.RoundTrip(try)
		if err == nil {
			return judge(res)
		}
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errOtherCert) || os.IsTimeout(err) ||
			time.Now().After(end) {
			return nil, err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// CloseIdleConnections is for http.Client.
func (p *persistent) CloseIdleConnections() { p.next.CloseIdleConnections() }

// A refusal is the text of an answer with an error.
type refusal struct{ text string }

func (r *refusal) Error() string { return "the crawl answers: " + readout.Line(r.text) }

// judge returns the answer, or a refusal if it is an error that does not come from a call.
func judge(res *http.Response) (*http.Response, error) {
	if res.StatusCode == http.StatusOK || strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, textMost))
	if err != nil {
		return nil, err
	}
	s := strings.TrimSpace(string(text))
	switch {
	case res.StatusCode == http.StatusNotFound:
		s = "it does not know this command; use the orbweaver that runs the crawl"
	case s == "":
		s = res.Status
	}
	return nil, &refusal{s}
}

// plain returns the error of a call in plain words.
func (c *CtlCmd) plain(addr string, err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	e, ok := errors.AsType[*connect.Error](err)
	if ok && connect.IsWireError(err) {
		if e.Message() == "" {
			return &refusal{e.Code().String()}
		}
		return &refusal{e.Message()}
	}
	if pid, herr := crawldir.CrawledBy(c.Dir); herr == nil && pid == 0 {
		return c.silent() // it was killed, and left its api.json
	}
	why := err
	if ok {
		why = e.Unwrap()
	}
	if u, ok := errors.AsType[*url.Error](why); ok {
		why = u.Err
	}
	if no := syscall.Errno(0); errors.As(err, &no) {
		why = no
	}
	return fmt.Errorf("the crawl in %s does not answer at %s: %s; try again, or look at its process",
		c.Dir, addr, readout.Line(why.Error()))
}

// call runs fn with the running crawl.
func (c *CtlCmd) call(fn func(ctx context.Context, o operator) error) error {
	o, err := c.open()
	if err != nil {
		return err
	}
	defer o.close()
	return fn(context.Background(), o)
}

// tell sends a command to the running crawl, prints the texts of the answers, and returns their errors as one.
func (c *CtlCmd) tell(out io.Writer, json JSONFlag,
	send func(context.Context, operator) ([]*pb.Answer, error)) error {
	return c.call(func(ctx context.Context, o operator) error {
		answers, err := send(ctx, o)
		if err != nil {
			return err
		}
		return json.print(out, answers)
	})
}

// printAnswers prints the texts of answers. In a cluster, the names of the agents stand above them. Answers
// with an error become the error.
func printAnswers(out io.Writer, answers []*pb.Answer) error {
	for _, a := range answers {
		if a.Error != "" {
			continue
		}
		if a.Agent != "" {
			fmt.Fprintf(out, "agent %s:\n", readout.Cell(a.Agent))
		}
		if text := strings.TrimRight(a.Text, "\n"); text != "" {
			if _, err := fmt.Fprintln(out, readout.Shorten(text, textMost)); err != nil {
				return err
			}
		}
	}
	return refusals(answers)
}

// refusals returns the errors of answers as one, or an error if there are no answers.
func refusals(answers []*pb.Answer) error {
	if len(answers) == 0 {
		return &refusal{"no agent has carried out the command; try again"}
	}
	var refused []string
	for _, a := range answers {
		switch {
		case a.Error == "":
		case a.Agent == "":
			refused = append(refused, (&refusal{a.Error}).Error())
		default:
			refused = append(refused, fmt.Sprintf("agent %s answers: %s", readout.Cell(a.Agent), readout.Line(a.Error)))
		}
	}
	if len(refused) > 0 {
		return &exitError{exitOther, strings.Join(refused, "\n")}
	}
	return nil
}

// health prints the answer of a crawl that runs.
func (c *CtlCmd) health(out io.Writer, json JSONFlag) error {
	return c.call(func(_ context.Context, o operator) error {
		res, err := o.http.Get(o.url + "/healthz")
		if err != nil {
			return c.plain(o.addr, err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(res.Body, textMost))
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return &refusal{strings.TrimSpace(string(answer))}
		}
		return json.print(out, []*pb.Answer{{Text: string(answer)}})
	})
}
