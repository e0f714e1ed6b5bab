package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
)

func TestTestweb(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("home"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := TestwebCmd{Folder: []string{"a.example=" + dir, "b.example/docs=" + dir},
		Address: []string{"a.example=127.5.5.5"}, Demo: true, Scheme: "https",
		CAOut: filepath.Join(dir, "ca.pem"), ReportOut: filepath.Join(dir, "report.json"),
		Log:       filepath.Join(dir, "log.tsv"),
		TimeLimit: 50 * time.Millisecond, AsJSON: true}
	var out bytes.Buffer
	if err := c.Run(&out); err != nil {
		t.Fatal(err)
	}
	var said struct {
		Seeds     []string
		ConnectTo []string `json:"connect_to"`
	}
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		t.Fatal(err)
	}
	want := "https://a.example/ https://b.example/docs/ http://www.aldermouth.example/"
	if got := strings.Join(said.Seeds, " "); got != want || len(said.ConnectTo) != 2 {
		t.Errorf("got seeds %s and %q, want %s", got, said.ConnectTo, want)
	}
	for _, f := range []string{"ca.pem", "report.json", "log.tsv"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
}

func TestTestwebRefuses(t *testing.T) {
	for name, c := range map[string]TestwebCmd{
		"nothing":   {},
		"folder":    {Folder: []string{"no-equals-sign"}},
		"directory": {Folder: []string{"a.example=/does/not/exist"}},
		"address":   {Demo: true, Address: []string{"a.example=10.0.0.1"}},
		"raw":       {Raw: []string{"x"}},
	} {
		var bad *node.ConfigError
		if err := c.Run(&bytes.Buffer{}); !errors.As(err, &bad) {
			t.Errorf("%s: got %v, want a configuration error", name, err)
		}
	}
}

// A port in use is refused with the name of its flag.
func TestTestwebPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]TestwebCmd{
		"--http-port " + port + ": the port is in use; choose another":  {Demo: true, HTTP: number},
		"--https-port " + port + ": the port is in use; choose another": {Demo: true, HTTPS: number},
		"--control " + addr + ": the port is in use; choose another":    {Demo: true, Control: addr},
		"--dns-listen " + addr + ": the port is in use; choose another": {Demo: true, DNSListen: addr},
	} {
		c.Scheme = "both"
		var bad *node.ConfigError
		if err := c.Run(&bytes.Buffer{}); !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, tt := range []struct {
		text string
		want share // -1: refused
	}{
		{"0", 0}, {"0.05", 0.05}, {"5%", 0.05}, {"100%", 1}, {"1", 1}, {"1e-3", 0.001},
		{"", -1}, {"%", -1}, {"2", -1}, {"-0.1", -1}, {"101%", -1}, {"NaN", -1}, {"5 %", -1},
	} {
		got := share(-1)
		if err := got.UnmarshalText([]byte(tt.text)); got != tt.want || (err == nil) != (tt.want >= 0) {
			t.Errorf("%q: got %g, %v, want %g", tt.text, got, err, tt.want)
		}
	}
}
