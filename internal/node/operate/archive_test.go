package operate

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// The captures of all agents come page by page, each once, also if an agent's answer was cut.
func TestCaptures(t *testing.T) { synctest.Test(t, testCaptures) }

func testCaptures(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	var want []string
	for i := range "01234" {
		for _, name := range []string{"a1", "a2", "a3"} {
			want = append(want, string("01234"[i])+" "+name)
		}
	}
	for _, limit := range []int32{1, 2, 4, 100} {
		var got []string
		q := &pb.CapturesRequest{Url: "http://a.example/", Limit: limit}
		for {
			r := must.Get(w.members["a1"].Captures(t.Context(), q))(t)
			for _, c := range r.Captures {
				if got = append(got, string(c.Line)); c.Agent != string(c.Line[2:]) || r.Key != "key" {
					t.Errorf("%s is of agent %q, key %q", c.Line, c.Agent, r.Key)
				}
			}
			if q.After = r.Next; len(r.Next) == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %q, want %q", limit, got, want)
		}
	}
	w.silent["a2"] = true
	r, err := w.members["a1"].Captures(t.Context(), &pb.CapturesRequest{Url: "a.example"})
	if err != nil || len(r.Captures) != 10 || len(r.Silent) != 1 || r.Silent[0].Agent != "a2" {
		t.Errorf("without a2: %v, %v", r, err)
	}
	w.run(t, `
		a1 Record agent:"a3" file:"f" most:10 -> = body_file:"a3 f"
		a1 Record agent:"a9" -> ! not_found
		a1 Record agent:"a1" from:-1 -> ! invalid_argument
		a1 Record agent:"a1" most:%d -> ! invalid_argument
		a1 Captures -> ! invalid_argument
		a1 Captures url:"http://" -> ! invalid_argument
		a1 Captures url:"a.example" match:9 -> ! invalid_argument
		a1 Captures url:"a.example" limit:-1 -> ! invalid_argument`, mostBody+1)
}

// The pages of a list end, even if an agent's answers begin anew on each of them, or always go on.
func TestPagesEnd(t *testing.T) {
	for _, other := range []string{liar, endless} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown("a1", other)
			captures, pages := &pb.CapturesRequest{Url: "a.example", Limit: 2}, 0
			for ; pages < 20; pages++ {
				r := must.Get(w.members["a1"].Captures(t.Context(), captures))(t)
				if captures.After = r.Next; len(r.Next) == 0 {
					break
				}
			}
			hosts := &pb.HostsRequest{Limit: 1}
			for ; pages < 40; pages++ {
				r := must.Get(w.members["a1"].Hosts(t.Context(), hosts))(t)
				if hosts.After = r.Next; r.Next == "" {
					break
				}
			}
			if pages > 12 {
				t.Errorf("%s: %d pages", other, pages)
			}
		})
	}
}

func TestCapturePrefixes(t *testing.T) {
	for _, c := range []struct {
		url   string
		match pb.CaptureMatch
		want  []string
	}{
		{"http://www.a.example/x?b=2&a=1", pb.CaptureMatch_CAPTURE_MATCH_EXACT, []string{"example,a)/x?a=1&b=2 "}},
		{"https://a.example", 0, []string{"example,a)/ "}},
		{"a.example/dir/", pb.CaptureMatch_CAPTURE_MATCH_PREFIX, []string{"example,a)/dir/"}},
		{"a.example/di", pb.CaptureMatch_CAPTURE_MATCH_PREFIX, []string{"example,a)/di"}},
		{"a.example", pb.CaptureMatch_CAPTURE_MATCH_PREFIX, []string{"example,a)"}},
		{"a.example/x", pb.CaptureMatch_CAPTURE_MATCH_HOST, []string{"example,a)", "example,a:"}},
		{"*.a.example", pb.CaptureMatch_CAPTURE_MATCH_DOMAIN, []string{"example,a)", "example,a,", "example,a:"}},
	} {
		got, err := CapturePrefixes(&pb.CapturesRequest{Url: c.url, Match: c.match})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, %v: %q, %v; want %q", c.url, c.match, got, err, c.want)
		}
	}
}
