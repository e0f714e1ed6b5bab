package sentence

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestSentences(t *testing.T) {
	for _, c := range []struct{ event, fields, want string }{
		{"host-paused", `{"host":"a.example","status":503,"until":"2026-01-02T15:05:05.000Z"}`,
			"a.example is paused until 2026-01-02 15:05:05Z, because it answered 503."},
		{"host-paused", `{"host":"a.example"}`, "a.example is paused."},
		{"host-paused", `null`, "unknown is paused."},
		{"order", `{"id":"a1-3","verb":"block","by":"alice@ws","what":"block a.example","why":"mail","off":false}`,
			"alice@ws gave the order a1-3: block a.example, because: mail."},
		{"order", `{"id":"a1-4","off":true,"by":""}`, "somebody took back the order a1-4."},
		{"command", `{"verb":"checkpoint","about":"a2","by":"alice@ws","why":""}`,
			"alice@ws gave the command checkpoint for a2."},
		{"view", `{"agents":["a1","a2","a3"]}`, "The hosts are divided among a1, a2 and a3."},
		{"view", `{"agents":["1","2","3","4","5","6","7","8","9","10","11","12"]}`,
			"The hosts are divided among 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more."},
		{"checkpoint", `{"bytes":123456,"took_ms":1500}`, "The state was saved (123 kB) in 1.5s."},
		{"state-saved", `{"number":2,"files":12,"bytes":123456,"sent":19808}`,
			"The store has state 2 of this agent (123 kB in 12 files); 20 kB were sent."},
		{"started", `{"version":"0.1.0","pid":7,"pending":1,"blocked":0}`,
			"The crawl started with version 0.1.0, with 1 URL waiting."},
		{"inherited", `{"agent":"a3","pending":1234,"known":0}`,
			"This agent took over hosts of a3, which is lost, with 1,234 links waiting and 0 URLs known."},
		{"push-failed", `{"agent":"a3","pages":2}`, "a3 does not take 2 pages; they wait."},
		{"list-moved", `{"list":"a-01","is_lost":false}`,
			"The list of the archive a-01 moved: the archive is not lost."},
		{"of-tomorrow", `{"some_thing":"a\u001b[2J","n":1234,"deep":{"x":[1,null,"y"]},"none":null}`,
			`of-tomorrow: deep x 1,  and y, n 1,234, some thing a\u001b[2J`},
		{"of-tomorrow", `{}`, "of-tomorrow"},
		{"error", `{"error":"{host} [x] \u202e"}`, `An error of this machine ended the crawl: {host} [x] \u202e.`},
	} {
		var fields map[string]any
		must.Do(t, json.Unmarshal([]byte(c.fields), &fields))
		if got := Of(c.event, fields); got != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.event, c.fields, got, c.want)
		}
	}
}

// Each event of the reference reads as a sentence, of fields that the reference knows. Events of coordinators do not
// reach operators of agents.
func TestReference(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../../docs/reference/events.md"))(t))
	text, _, _ = strings.Cut(text, "## Coordinators")
	known := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z].*?) \\| (.*?) \\|").FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			name = strings.Trim(name, "`")
			known[name] = true
			pattern := patterns[name]
			if pattern == "" {
				t.Errorf("the event %s has no sentence", name)
			}
			for _, field := range slices.Concat(Names(pattern), shared[name]) {
				if !strings.Contains(row[2], "`"+field+"`") && field != "what" { // of operate
					t.Errorf("the event %s has no field %s", name, field)
				}
			}
			if got := Of(name, nil); got == "" || strings.ContainsAny(got, "{}[]|?#") {
				t.Errorf("%s without fields: %s", name, got)
			}
		}
	}
	for name := range patterns {
		if !known[name] {
			t.Errorf("the reference has no event %s", name)
		}
	}
	for name := range shared {
		if !known[name] {
			t.Errorf("the reference has no event %s", name)
		}
	}
}

// Events are shared if their fields are equal.
func TestShared(t *testing.T) {
	a, shares := Shared("order", map[string]any{"id": "a1-3", "agent": "a1"})
	b, _ := Shared("order", map[string]any{"id": "a1-3"})
	c, _ := Shared("order", map[string]any{"id": "a1-4"})
	if !shares || a != b || a == c {
		t.Errorf("%t, %q, %q, %q", shares, a, b, c)
	}
	if _, shares := Shared("host-paused", nil); shares {
		t.Error("each agent pauses its own hosts")
	}
}
