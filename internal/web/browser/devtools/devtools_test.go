package devtools

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A message is one of the protocol, as this test's browser sees it.
type message struct {
	ID        int64          `json:"id"`
	SessionID string         `json:"sessionId"`
	Method    string         `json:"method"`
	Params    map[string]any `json:"params"`
}

// start returns a connection to a browser that hands each message to answer, which writes to it.
func start(t *testing.T, answer func(m message, to io.Writer)) (c *Conn, say func(string), end func()) {
	t.Helper()
	fromBrowser, browserOut := io.Pipe()
	browserIn, toBrowser := io.Pipe()
	c = New(fromBrowser, toBrowser)
	var all sync.WaitGroup
	all.Go(func() { _ = c.Run() })
	all.Go(func() {
		r := bufio.NewReader(browserIn)
		for {
			b, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if err := json.Unmarshal(b[:len(b)-1], &m); err != nil {
				t.Error(err)
			}
			answer(m, browserOut)
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		_ = browserOut.Close()
		all.Wait()
	})
	say = func(s string) { _, _ = io.WriteString(browserOut, s+"\x00") }
	return c, say, func() { _ = browserOut.Close() }
}

func TestCalls(t *testing.T) {
	c, _, _ := start(t, func(m message, to io.Writer) {
		switch m.Method {
		case "A.echo":
			fmt.Fprintf(to, `{"id":%d,"sessionId":%q,"result":{"said":%q}}`+"\x00", m.ID, m.SessionID, m.Params["say"])
		case "A.fail":
			fmt.Fprintf(to, `{"id":%d,"error":{"code":-32000,"message":"no such thing"}}`+"\x00", m.ID)
		case "A.bad":
			fmt.Fprintf(to, `{"id":%d,"result":[1]}`+"\x00", m.ID)
		}
	})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			var r struct {
				Said string `json:"said"`
			}
			want := fmt.Sprint("text ", i)
			err := c.Session("s").Call(t.Context(), "A.echo", map[string]string{"say": want}, &r)
			if err != nil || r.Said != want {
				t.Errorf("%q %v, want %q", r.Said, err, want)
			}
		})
	}
	all.Wait()
	var r struct{ Said string }
	err := c.Session("").Call(t.Context(), "A.fail", nil, &r)
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Error(err)
	}
	if err := c.Session("").Call(t.Context(), "A.bad", nil, &r); err == nil {
		t.Error("an answer of another form has no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Session("").Call(ctx, "A.silent", nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	c, say, end := start(t, func(m message, to io.Writer) { fmt.Fprintf(to, `{"id":%d,"result":{}}`+"\x00", m.ID) })
	s := c.Session("s")
	events, stop := s.Subscribe("P.happened")
	others, stopOthers := c.Session("other").Subscribe("P.happened")
	defer stopOthers()
	say(`{"method":"P.happened","sessionId":"s","params":{"n":1}}`)
	say(`{"method":"P.other","sessionId":"s","params":{"n":2}}`)
	if got := string(<-events); got != `{"n":1}` {
		t.Error(got)
	}
	for i := range 2 * maxEvents {
		say(fmt.Sprintf(`{"method":"P.happened","sessionId":"s","params":{"n":%d}}`, i))
	}
	if err := s.Call(t.Context(), "A.sync", nil, nil); err != nil { // all events before it were read
		t.Fatal(err)
	}
	if len(events) != maxEvents || c.Dropped() != maxEvents || len(others) != 0 {
		t.Errorf("%d wait, %d of another session, %d were dropped", len(events), len(others), c.Dropped())
	}
	stop()
	stop() // has no effect
	for range events {
		continue
	}
	end()
	<-c.Closed()
	if err := s.Call(t.Context(), "A.late", nil, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	late, stop := s.Subscribe("P.happened")
	defer stop()
	if _, open := <-late; open {
		t.Error("an event after the end")
	}
	if _, open := <-others; open {
		t.Error("an event of another session")
	}
}

// TestEndOfBrowser ends the browser while a call waits for its answer.
func TestEndOfBrowser(t *testing.T) {
	asked := make(chan struct{})
	c, _, end := start(t, func(message, io.Writer) { close(asked) })
	failed := make(chan error)
	go func() { failed <- c.Session("").Call(t.Context(), "A.silent", nil, nil) }()
	<-asked
	end()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestMessageTooLong has a browser that sends for ever.
func TestMessageTooLong(t *testing.T) {
	b := &bounded{ReadCloser: io.NopCloser(zeros{})}
	p := make([]byte, 1<<20)
	for range maxMessage / len(p) {
		if _, err := b.Read(p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Read(p); err == nil {
		t.Error("no bound")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// FuzzMessages reads what a hostile browser may write.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":{}}` + "\x00"))
	f.Add([]byte(`{"method":"P.x","params":{}}` + "\x00{\x00"))
	f.Add([]byte("\x00\x00[]\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := New(io.NopCloser(strings.NewReader(string(b))), nopWriter{})
		events, _ := c.Session("").Subscribe("P.x")
		if c.Run() == nil {
			t.Error("Run returned no error")
		}
		for range events {
			continue
		}
	})
}

type nopWriter struct{}

func (nopWriter) Write(p []byte) (int, error) { return len(p), nil }
func (nopWriter) Close() error                { return nil }
