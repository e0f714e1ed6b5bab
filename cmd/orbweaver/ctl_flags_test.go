package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Each command of ctl has --json. A command that changes something has --by, and each other one has --watch.
func TestCtlFlags(t *testing.T) {
	var c commands
	out := cli.NewOutput(io.Discard)
	p := must.Get(newParser(&c, &c, &elsewhere{}, out, out, func(int) {}))(t)
	i := slices.IndexFunc(p.Model.Children, func(n *kong.Node) bool { return n.Name == "ctl" })
	leaves := p.Model.Children[i].Leaves(true)
	if len(leaves) < 20 {
		t.Fatalf("%d commands of ctl", len(leaves))
	}
	both := []string{"scope"} // shows the scope, and changes it
	neither := map[string]string{
		"events": "--follow is its --watch",
		"health": "ends with an exit code, for health checks",
	}
	for _, n := range leaves {
		has := func(name string) bool {
			return slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == name })
		}
		if !has("json") {
			t.Errorf("ctl %s has no --json", n.Name)
		}
		changes := slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { // ctl hosts has another --by
			return f.Name == "by" && f.PlaceHolder == "WHO"
		})
		shows := has("watch")
		switch {
		case slices.Contains(both, n.Name) != (changes && shows):
			t.Errorf("ctl %s: --by %t, --watch %t", n.Name, changes, shows)
		case (neither[n.Name] != "") != (!changes && !shows):
			t.Errorf("ctl %s: it needs --watch if it only shows something, else --by; --by %t, --watch %t", n.Name,
				changes, shows)
		case has("why") && !changes:
			t.Errorf("ctl %s has --why without --by", n.Name)
		}
	}
}

// With --json, each command that changes something prints the same form: an order, if there is one, and the answers. If
// an agent has not done as told, or does not know the order yet, the exit code is 1.
func TestCtlJSON(t *testing.T) {
	api := cannedFor(map[string]string{"*": `order:{id:"a1-3" by:"alice@ws" verb:"pause"}
		answers:{agent:"a1" text:"done"} answers:{agent:"a2" error:"no answer" code:"silent"}`})
	for args, ordered := range map[string]bool{
		"pause": true, "resume": true, "block a.example": true, "block *.a.example": true, "unblock a.example": true,
		"drop a.example": false, "delay a.example 3s": true, "rate 40/s": true, "rate a.example 5/s": true,
		"take-back a1-3": true, "checkpoint": false, "stop": false, "leave": false, "explain a.example": false,
	} {
		code, stdout, stderr := ctl(serveAPI(t, api, "x"), append(strings.Fields(args), "--json")...)
		var got struct {
			Order   *struct{ ID, By string }
			Answers []struct{ Agent, Text, Error, Code string }
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Errorf("ctl %s: %v\n%s%s", args, err, stdout, stderr)
			continue
		}
		if len(got.Answers) != 2 || got.Answers[0].Text != "done" || got.Answers[1].Code != "silent" ||
			(got.Order != nil) != ordered || ordered && (got.Order.ID != "a1-3" || got.Order.By != "alice@ws") {
			t.Errorf("ctl %s: %s", args, stdout)
		}
		want := "orbweaver: agent a2 answers: no answer\n" // it has not done as told
		if ordered {
			want = "orbweaver: a2 does not know it yet, and is told as soon as it answers: no answer\n"
		}
		if code != 1 || stderr != want {
			t.Errorf("ctl %s: exit code %d, %q", args, code, stderr)
		}
	}
}

// The API learns who gives a command: the user of this program, or the name after --by.
func TestCtlBy(t *testing.T) {
	h, got := cannedFor(map[string]string{"*": `answers:{text:"done"}`}), ""
	dir := serveAPI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Orbweaver-By")
		h.ServeHTTP(w, r)
	}), "x")
	t.Setenv("SUDO_USER", "eve")
	host := must.Get(os.Hostname())(t)
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"pause"}, "eve@" + host, 0},
		{[]string{"pause", "--by", "Jürgen B"}, "J%C3%BCrgen%20B", 0},
		{[]string{"leave", "--by", "bob"}, "bob", 0},
		{[]string{"checkpoint", "--by= bob "}, "bob", 0},
		{[]string{"pause", "--by", "a\nb"}, "", 4},
		{[]string{"pause", "--by", strings.Repeat("x", 201)}, "", 4},
		{[]string{"hosts", "--by", "bob"}, "", 4},
	} {
		got = ""
		if code, _, stderr := ctl(dir, c.args...); code != c.code || got != c.want {
			t.Errorf("ctl %q: exit code %d, by %q, want %q; %s", c.args, code, got, c.want, stderr)
		}
	}
	t.Setenv("SUDO_USER", "")
	if name, at, ok := strings.Cut(me(), "@"); !ok || name == "" || at != host {
		t.Errorf("this user is %q", me())
	}
}

// With --watch --json, each command that shows something prints a JSON object on each line until the crawl ends.
func TestCtlWatchJSON(t *testing.T) {
	quickly(t)
	for _, args := range []string{"status", "hosts", "orders", "explain a.example", "apps", "log", "scope"} {
		dir := serveOnce(t, cannedFor(map[string]string{"*": `answers:{text:"first"}`}))
		code, stdout, stderr := ctl(dir, append(strings.Fields(args), "--watch", "--json")...)
		if code != 0 || !json.Valid([]byte(stdout)) || strings.Count(stdout, "\n") != 1 ||
			strings.Contains(stdout, "  ") || stderr != "orbweaver: the crawl in DIR has ended\n" {
			t.Errorf("ctl %s: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}
