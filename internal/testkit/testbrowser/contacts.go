package testbrowser

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// Contacts ends the browser and returns whom it has contacted, or tried to, by its own network log:
// "dns NAME" for a name that it looked up, "tcp ADDR:PORT" and "udp ADDR:PORT". Names below
// localhost are not looked up.
func (b *Browser) Contacts() []string {
	b.tb.Helper()
	b.Stop()
	return ContactsIn(b.tb, b.log)
}

// ContactsIn returns the contacts in the network log of a browser that has ended.
func ContactsIn(tb testing.TB, name string) []string {
	tb.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	var log struct {
		Constants struct {
			Types map[string]int `json:"logEventTypes"`
		} `json:"constants"`
		Events []struct {
			Type   int             `json:"type"`
			Params json.RawMessage `json:"params"`
		} `json:"events"`
	}
	if err := json.Unmarshal(text, &log); err != nil {
		tb.Fatalf("network log: %v", err)
	}
	names := map[int]string{}
	for name, n := range log.Constants.Types {
		names[n] = name
	}
	if len(log.Events) == 0 || len(names) == 0 {
		tb.Fatal("the network log is empty")
	}
	var found []string
	for _, e := range log.Events {
		var p struct{ Address, Host, Hostname string }
		_ = json.Unmarshal(e.Params, &p) // other events have other parameters
		switch name := names[e.Type]; {
		case name == "TCP_CONNECT_ATTEMPT" && p.Address != "":
			found = append(found, "tcp "+p.Address)
		case name == "UDP_CONNECT" && p.Address != "":
			found = append(found, "udp "+p.Address)
		case strings.HasPrefix(name, "HOST_RESOLVER") && p.Host+p.Hostname != "":
			if host := p.Host + p.Hostname; !strings.Contains(host, ".localhost") {
				found = append(found, "dns "+host)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
