// Package testcalls answers: does a service answer calls as a text says?
//
//	a1 Block host:"a.example" why:"asked"    the agent, the method, and the request
//	-> about:"a.example"                     the response contains this
//	a2 Explain host:"" -> ! invalid_argument not a host name
//
// Requests and responses are in the text format of protocol buffers, on one line. A line that begins with -> is about
// the call above it. One such text may follow the call on its own line:
//
//	-> TEXT         the response contains TEXT
//	-> - TEXT       the response does not contain TEXT
//	-> = TEXT       the response is TEXT
//	-> ! CODE TEXT  the call fails with the code, and the error contains TEXT
//
// Without an error line, the call succeeds. A line with # is a comment. A service of one agent has no names.
package testcalls

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Run makes the calls of a text, and reports answers that differ from it. service returns the service of an agent: its
// methods take a context and a request, and return a response and an error.
func Run(t *testing.T, text string, service func(agent string) any) {
	t.Helper()
	RunContext(t.Context(), t, text, service)
}

// RunContext is Run with a context for the calls.
func RunContext(ctx context.Context, t *testing.T, text string, service func(agent string) any) {
	t.Helper()
	var call, got string
	var err error
	failed, expected := false, true
	end := func() {
		t.Helper()
		if err != nil && !expected && !failed {
			t.Errorf("%.300s: %v", call, err)
		}
	}
	check := func(want string) {
		t.Helper()
		ok := err == nil
		switch kind, rest, _ := strings.Cut(want, " "); kind {
		case "!":
			expected = true
			code, text, _ := strings.Cut(rest, " ")
			ok = err != nil && connect.CodeOf(err).String() == code && strings.Contains(err.Error(), text)
		case "-":
			ok = ok && !strings.Contains(got, rest)
		case "=":
			ok = ok && got == rest
		default:
			ok = ok && strings.Contains(got, want)
		}
		if !ok {
			failed = true
			t.Errorf("%.300s\ngot  %s, %v\nwant %s", call, got, err, want)
		}
	}
	for _, line := range strings.Split(text, "\n") { // the body of an iterator's loop would not be a helper
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if want, ok := strings.CutPrefix(line, "->"); ok {
			check(strings.TrimSpace(want))
			continue
		}
		end()
		var want string
		var has bool
		call, want, has = strings.Cut(line, " -> ")
		failed, expected = false, false
		if got, err = makeCall(ctx, t, call, service); has {
			check(strings.TrimSpace(want))
		}
	}
	end()
}

// makeCall makes the call of a line, and returns the response as text.
func makeCall(ctx context.Context, t *testing.T, line string, service func(agent string) any) (string, error) {
	t.Helper()
	agent, rest := "", strings.TrimSpace(line)
	if name, more, _ := strings.Cut(rest, " "); strings.ToLower(name[:1]) == name[:1] {
		agent, rest = name, strings.TrimSpace(more)
	}
	name, text, _ := strings.Cut(rest, " ")
	method := reflect.ValueOf(service(agent)).MethodByName(name)
	if !method.IsValid() {
		t.Fatalf("%s: there is no method %s", line, name)
	}
	q := reflect.New(method.Type().In(1).Elem())
	if err := prototext.Unmarshal([]byte(text), q.Interface().(proto.Message)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), q})
	err, _ := out[1].Interface().(error)
	if out[0].IsNil() {
		return "", err
	}
	return oneLine(out[0].Interface().(proto.Message)), err
}

// oneLine returns a message as text, without the additional spaces that the library adds in some programs.
func oneLine(m proto.Message) string {
	return strings.TrimSpace(strings.ReplaceAll(prototext.MarshalOptions{}.Format(m), "  ", " "))
}
