package lease

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestSurvey: a grantor that is new to a point grants it as soon as a survey shows that no agent
// can hold it. If the survey does not show that, it grants it after Config.grace.
func TestSurvey(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(ans *Batch) // changes the other agent's answer
		view   func(v *picture)
		soon   bool
	}{
		{"all is known", nil, func(*picture) {}, true},
		{"another view, or a lease", func(ans *Batch) { ans.Survey, ans.Lost = false, 0 }, func(*picture) {}, false},
		{"the other one has lost an agent", func(ans *Batch) { ans.Lost = 15 * time.Second }, func(*picture) {}, false},
		{"an agent is missing", nil, func(v *picture) { v.missing = true }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			v, point := pair()
			c.view(v)
			other := opened(2, v, now)
			p := New(1, Config{}, now)
			p.Look(v, now)
			for began := now; ; now = now.Add(250 * time.Millisecond) {
				p.Contact(now, now)
				if ok, _ := p.Ready(point, time.Second, now); ok {
					if took := now.Sub(began); took < time.Second || (took < 4*time.Second) != c.soon {
						t.Errorf("granted after %v", took)
					}
					return
				}
				exchange(t, now, p, other, c.answer)
				if now.Sub(began) > time.Minute {
					t.Fatal("never granted")
				}
			}
		})
	}
}

// TestSurveyIsNotAnswered: an agent must not answer a survey in two cases. It has a lease of the
// asker's points from another grantor, or it has a request in progress at one without a lease.
func TestSurveyIsNotAnswered(t *testing.T) {
	now := time.Unix(1e9, 0)
	v, point := pair() // agent 1 grants point
	p := opened(2, &picture{members: []AgentID{2}}, now)
	p.Ready(point, time.Second, now)
	p.Calls(now)
	if !p.Begin(now, point) {
		t.Fatal("not granted by itself")
	}
	stamp := uint64(0)
	answered := func() bool {
		t.Helper()
		stamp++
		p.Contact(now, now)
		return serve(t, p, &Batch{From: 1, To: 2, Stamp: stamp, View: v.Digest(), Survey: true}, now).Survey
	}
	p.Look(v, now)
	if answered() {
		t.Error("answered with a lease of another grantor")
	}
	calls := p.Calls(now)
	if len(calls) != 1 || len(calls[0].Asks) != 1 || !calls[0].Asks[0].Holding {
		t.Fatalf("calls %+v", calls)
	}
	refused := &Batch{From: 1, To: 2, Stamp: calls[0].Stamp, View: v.Digest(), Answer: true, Refused: []uint64{point}}
	must.Do(t, p.Answered(refused, now))
	if answered() {
		t.Error("answered with a request under way without a lease")
	}
	p.Used(point, now, time.Second, true, now)
	if !answered() {
		t.Error("not answered when the request has ended")
	}
	ans := serve(t, p, &Batch{From: 1, To: 2, Stamp: stamp + 1, View: v.Digest() + 1, Survey: true}, now)
	if ans.Survey {
		t.Errorf("a survey of another view is answered by %+v", ans)
	}
}
