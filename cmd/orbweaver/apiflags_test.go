package main

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A port that cannot be opened stops a crawl only if --api names it.
func TestPortOfAPI(t *testing.T) {
	busy := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	defer func(was string) { freePort = was }(freePort)
	freePort = busy.Addr().String()

	var notes []string
	note := func(text string) { notes = append(notes, text) }
	if ln, err := (APIFlags{}).open(nil, note); ln != nil || err != nil {
		t.Errorf("without --api: %v, %v", ln, err)
	}
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "warning: api "+freePort+": the port is in use") {
		t.Errorf("without --api: notes %q", notes)
	}
	ln, err := APIFlags{API: freePort}.open(nil, note)
	if wrong := (*input.ConfigError)(nil); ln != nil || !errors.As(err, &wrong) {
		t.Errorf("with --api %s: %v, %v", freePort, ln, err)
	}
	if ln, err := (APIFlags{API: noAPI}).open(nil, note); ln != nil || err != nil || len(notes) != 1 {
		t.Errorf("with --api none: %v, %v, notes %q", ln, err, notes)
	}
}
