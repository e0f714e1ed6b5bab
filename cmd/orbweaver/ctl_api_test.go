package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A cannedAPI serves the API of a crawl to callers with the token x. It gives the answers of a call in their order, and
// the last one again. A stream gets all of them. A call without answers gets that of the call "*", or the fields of it
// that its own answer has.
type cannedAPI struct {
	mu      sync.Mutex
	answers map[string][]string // the text of a message, or "!CODE TEXT" for an error, by call
	asked   []string            // the requests
}

// take returns the next answer of a call, and keeps the request.
func (c *cannedAPI) take(call string, request proto.Message) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := prototext.MarshalOptions{EmitASCII: true}.Format(request)
	c.asked = append(c.asked, strings.TrimSpace(call+" "+strings.Join(strings.Fields(text), " "))) // its spaces vary
	all := c.answers[call]
	if len(all) == 0 {
		if all = c.answers["*"]; len(all) == 0 {
			return ""
		}
		return all[0]
	}
	if len(all) > 1 && call != "Events" {
		c.answers[call] = all[1:]
	}
	return all[0]
}

func (c *cannedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := path.Base(r.URL.Path)
	method := pb.File_operator_proto.Services().ByName("Operator").Methods().ByName(protoreflect.Name(call))
	body, err := io.ReadAll(r.Body)
	switch {
	case r.Header.Get("Authorization") != "Bearer x":
		http.Error(w, "no valid token: send the one in state/api.json", http.StatusUnauthorized)
		return
	case r.URL.Path == "/healthz":
		fmt.Fprintln(w, "ok")
		return
	case err != nil || method == nil:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	if method.IsStreamingServer() { // a message is behind a byte of flags and four of its length
		body = body[5:]
	}
	request := dynamicpb.NewMessage(method.Input())
	if err := proto.Unmarshal(body, request); err != nil {
		panic(err)
	}
	answer := c.take(call, request)
	if code, ok := strings.CutPrefix(answer, "!"); ok {
		code, text, _ := strings.Cut(code, " ")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		json.NewEncoder(w).Encode(map[string]string{"code": code, "message": text})
		return
	}
	message := func(text string) []byte {
		m := dynamicpb.NewMessage(method.Output())
		if err := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), m); err != nil {
			panic(fmt.Sprintf("%s: %v", text, err))
		}
		b, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		return b
	}
	if !method.IsStreamingServer() {
		w.Write(message(answer))
		return
	}
	envelope := func(flags byte, b []byte) {
		w.Write(append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(b))), b...))
	}
	for _, text := range c.answers[call] {
		envelope(0, message(text))
	}
	envelope(2, []byte("{}")) // the end
}

// cannedFor returns an API that gives one answer to each of some calls.
func cannedFor(answers map[string]string) *cannedAPI {
	c := &cannedAPI{answers: map[string][]string{}}
	for call, text := range answers {
		c.answers[call] = []string{text}
	}
	return c
}

// formatted returns a message as text, for cannedFor.
func formatted(m proto.Message) string { return prototext.Format(m) }

// ctlFile has commands of ctl, each with what the API answers, what it was asked, and what the command prints. The
// lines before a command that begin with "< " are answers: a call and a message. Below the command, the lines that
// begin with "> " are requests, and those with "! " standard error. The test runs the command, and with -update writes
// the lines below it.
const ctlFile = "testdata/ctl.txt"

func TestCtl(t *testing.T) {
	const end = "[exit code "
	text := fileText(t, ctlFile)
	path := must.Get(filepath.Abs(ctlFile))(t)
	t.Chdir(t.TempDir()) // some commands write and read files
	var out strings.Builder
	api := cannedFor(nil)
	commands := 0
	for lines := strings.SplitAfter(text, "\n"); len(lines) > 0; lines = lines[1:] {
		line := lines[0]
		out.WriteString(line)
		if answer, ok := strings.CutPrefix(line, "< "); ok {
			call, message, _ := strings.Cut(strings.TrimSpace(answer), " ")
			api.answers[call] = append(api.answers[call], message)
		}
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		want := ""
		n := slices.IndexFunc(lines[1:], func(line string) bool {
			return strings.HasPrefix(line, end) || strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "< ")
		})
		if n >= 0 && strings.HasPrefix(lines[1+n], end) { // otherwise the command is new
			want = strings.Join(lines[1:n+2], "")
			lines = lines[n+1:]
		}
		commands++
		args := shellWords(t, strings.TrimSpace(command))
		code, stdout, stderr := ctl(serveAPI(t, api, "x"), args[1:]...)
		got := ""
		for _, q := range api.asked {
			got += "> " + q + "\n"
		}
		got += stdout
		for line := range strings.Lines(stderr) {
			got += "! " + line
		}
		got += fmt.Sprintf("%s%d]\n", end, code)
		if out.WriteString(got); got != want && !*update {
			t.Errorf("$ %sgot:\n%swant:\n%s", command, got, want)
		}
		api = cannedFor(nil)
	}
	if commands < 80 {
		t.Errorf("%d commands in %s", commands, ctlFile)
	}
	if *update {
		makeFile(t, path, out.String())
	}
}

func fileText(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(name))(t)
	return string(b)
}

func makeFile(t *testing.T, name, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
}
