package testbrowser

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A pipe carries the DevTools protocol: JSON messages that end with a zero byte.
type pipe struct {
	tb   testing.TB
	in   *os.File
	out  *os.File
	done chan struct{} // closed when the reader has ended
	end  time.Time     // when an answer is late

	mu      sync.Mutex // guards the fields below
	last    int
	waiting map[int]chan message
	// frames has the sessions of frames in other processes, by their target, and their URLs.
	frames map[string]*frame
	over   bool
}

type frame struct{ session, url string }

// A message is an answer or an event.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// A callError is the browser's refusal of a call.
type callError struct{ text string }

func (e *callError) Error() string { return e.text }

var (
	errClosed = errors.New("the browser has ended")
	errLate   = errors.New("the browser does not answer")
)

func newPipe(tb testing.TB, in, out *os.File, end time.Time) *pipe {
	p := &pipe{tb: tb, in: in, out: out, end: end, done: make(chan struct{}), waiting: map[int]chan message{},
		frames: map[string]*frame{}}
	go p.read()
	return p
}

// read hands answers to their callers until the browser closes the pipe.
func (p *pipe) read() {
	defer close(p.done)
	r := bufio.NewReader(p.out)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		p.mu.Lock()
		if m.ID != 0 {
			if c := p.waiting[m.ID]; c != nil {
				delete(p.waiting, m.ID)
				c <- m // has room for one
			}
		} else {
			p.follow(m)
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, c := range p.waiting {
		close(c)
	}
	clear(p.waiting)
}

// follow keeps the list of frames. The caller holds mu.
func (p *pipe) follow(m message) {
	var e struct {
		SessionID  string `json:"sessionId"`
		TargetID   string `json:"targetId"`
		TargetInfo struct {
			TargetID string `json:"targetId"`
			Type     string `json:"type"`
			URL      string `json:"url"`
		} `json:"targetInfo"`
	}
	if json.Unmarshal(m.Params, &e) != nil {
		return
	}
	switch m.Method {
	case "Target.attachedToTarget":
		if e.TargetInfo.Type == "iframe" {
			p.frames[e.TargetInfo.TargetID] = &frame{e.SessionID, e.TargetInfo.URL}
			// The frames within this one; the answer has no receiver.
			p.last++
			_ = p.send(p.last, e.SessionID, "Target.setAutoAttach", autoAttach)
		}
	case "Target.targetInfoChanged":
		if f := p.frames[e.TargetInfo.TargetID]; f != nil {
			f.url = e.TargetInfo.URL
		}
	case "Target.targetCrashed":
		delete(p.frames, e.TargetID)
	case "Target.detachedFromTarget":
		for id, f := range p.frames {
			if f.session == e.SessionID {
				delete(p.frames, id)
			}
		}
	}
}

// frame returns the session of a frame whose URL contains part.
func (p *pipe) frame(part string) (session string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.frames {
		if strings.Contains(f.url, part) {
			return f.session, true
		}
	}
	return "", false
}

// call calls a method and waits for its result.
func (p *pipe) call(session, method string, params object, result any) error {
	answer := make(chan message, 1)
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return errClosed
	}
	p.last++
	p.waiting[p.last] = answer
	err := p.send(p.last, session, method, params)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	late := time.NewTimer(time.Until(p.end))
	defer late.Stop()
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return errClosed
		case m.Error != nil:
			return &callError{m.Error.Message}
		case result != nil:
			return json.Unmarshal(m.Result, result)
		}
		return nil
	case <-late.C:
		return errLate
	}
}

// autoAttach asks for sessions with the frames of other sites.
var autoAttach = object{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true}

// send writes a request. The caller holds mu.
func (p *pipe) send(id int, session, method string, params object) error {
	request := object{"id": id, "method": method}
	if params != nil {
		request["params"] = params
	}
	if session != "" {
		request["sessionId"] = session
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, err = p.in.Write(append(text, 0))
	return err
}

// close closes the pipe after the browser has ended.
func (p *pipe) close() {
	p.in.Close()
	p.out.Close()
	<-p.done
}
