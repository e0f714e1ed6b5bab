package saving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// A family is a store with series, and the agent a1, which adopts.
type family struct {
	t     *testing.T
	store *teststore.Sim
	mem   *testdisk.Mem

	replicated bool // set while no agent runs

	mu      sync.Mutex // guards all below
	boots   map[string]uint64
	events  []string
	adopted []string
	fails   error
}

func (f *family) First() bool { return true }

func (*family) Crawl() rpc.ID { return rpc.ID{1} }

func (f *family) Boots() map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	boots := map[string]uint64{}
	for name, boot := range f.boots {
		boots[name] = boot
	}
	return boots
}

func (f *family) CanAdopt(string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fails
}

func (f *family) Adopt(ctx context.Context, agent, dir string) error {
	if b, err := disk.ReadFile(f.mem, dir+"/crawl.yaml", 100); err != nil || string(b) != agent {
		f.t.Errorf("the directory of %s has %q, %v", agent, b, err)
	}
	k := f.keeper(agent, dir)
	must.Do(f.t, k.Open(ctx, true, false))
	k.Heirs = map[string]uint64{"a1": 7, agent: 8}
	must.Do(f.t, k.Last(End{Left: true}))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.adopted = append(f.adopted, agent)
	return nil
}

func (f *family) Write(kind string, fields ...report.Field) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, strings.TrimSpace(fmt.Sprint(kind, " ", fields)))
}

func (f *family) keeper(agent, dir string) *Keeper {
	return &Keeper{Series: Series{Store: stores.Place{URL: "s3://bucket/", Backend: f.store}, Crawl: "web",
		Agent: agent, FS: f.mem, Dir: dir}, Every: time.Minute, Boot: 7, Members: f, Events: f,
		Replicated: f.replicated}
}

// save saves a state of an agent, whose process is then killed.
func (f *family) save(agent string, n note) *image.Saver {
	return f.saveNote(agent, string(must.Get(json.Marshal(n))(f.t)))
}

func (f *family) saveNote(agent, note string) *image.Saver {
	dir := "/" + agent
	must.Do(f.t, f.mem.MkdirAll(dir+"/state", 0o755))
	must.Do(f.t, disk.WriteFile(f.mem, dir+"/crawl.yaml", []byte(agent)))
	k := f.keeper(agent, dir)
	must.Do(f.t, k.Open(f.t.Context(), false, true))
	cut := must.Get(k.saver.Take(f.mem, dir, files))(f.t)
	cut.Note = []byte(note)
	must.Get(k.saver.Save(f.t.Context(), cut))(f.t)
	return k.saver
}

// adopts runs the Orphans of a1 while then runs.
func (f *family) adopts(restored bool, then func(o *Orphans, k *Keeper)) {
	k := f.keeper("a1", "/a1")
	must.Do(f.t, f.mem.MkdirAll("/a1/state", 0o755))
	must.Do(f.t, k.Open(f.t.Context(), false, true))
	k.restored = restored
	o := NewOrphans(k, f)
	k.Orphans = o
	ctx, stop := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	running.Go(func() {
		if err := k.Watch(ctx, nil); err != nil {
			f.t.Error(err)
		}
	})
	then(o, k)
	stop()
	running.Wait()
}

func (f *family) has(event string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.events, func(e string) bool { return strings.HasPrefix(e, event) })
}

func (f *family) done() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.adopted)
	return strings.Join(f.adopted, " ")
}

func among(t *testing.T, fn func(f *family)) {
	synctest.Test(t, func(t *testing.T) {
		fn(&family{t: t, store: teststore.NewSim(1, teststore.Traits{}), mem: testdisk.NewMem(),
			boots: map[string]uint64{"a1": 7}})
	})
}

// An agent that has come from the store adopts the states that nobody has touched for two minutes. It begins no visit
// before, and the crawl does not end.
func TestOrphansAreAdopted(t *testing.T) {
	among(t, func(f *family) {
		for _, name := range []string{"a2", "a3", "a4", "a5"} {
			f.save(name, note{Boot: 3, Over: name == "a5"})
		}
		f.boots["a4"] = 3
		f.adopts(true, func(o *Orphans, k *Keeper) {
			time.Sleep(time.Minute)
			if k.Held() == "" || o.Claimed() || o.Unclaimed() == "" || f.done() != "" {
				f.t.Errorf("held %q, claimed %t, unclaimed %q, adopted %q", k.Held(), o.Claimed(), o.Unclaimed(),
					f.done())
			}
			f.save("a3", note{Boot: 4}) // its agent is resumed, and not here yet
			time.Sleep(100 * time.Second)
			if f.done() != "a2 a5" { // a5 knows what it has fetched, though its crawl had ended
				f.t.Errorf("adopted %q", f.done())
			}
			f.mu.Lock()
			f.boots["a3"] = 4
			f.mu.Unlock()
			time.Sleep(time.Minute)
			if k.Held() != "" || o.Unclaimed() != "" || f.done() != "a2 a5" || f.has("state-removed") {
				f.t.Errorf("held %q, unclaimed %q, adopted %q", k.Held(), o.Unclaimed(), f.done())
			}
			p := k.place
			p.Prefix = k.prefix("a2")
			if at := must.Get(image.Stand(f.t.Context(), p))(f.t); !at.Released {
				f.t.Errorf("the agent has left, and the next resume of its state waits for it: %+v", at)
			}
			for n := range 2 { // the state of a2 goes when a1 has saved two of its own
				must.Do(f.t, disk.WriteFile(f.mem, "/a1/crawl.yaml", fmt.Append(nil, n)))
				cut := must.Get(k.saver.Take(f.mem, "/a1", files))(f.t)
				must.Do(f.t, k.send(f.t.Context(), cut, note{}))
			}
			time.Sleep(time.Minute)
			if !f.has("state-removed") {
				f.t.Errorf("the state of an agent that has left stays: %q", f.events)
			}
			for _, key := range f.store.Keys() {
				if strings.Contains(key, "/state/a2/") && !strings.HasSuffix(key, "current.json") {
					f.t.Errorf("%s stays", key)
				}
			}
			if _, err := f.mem.Stat("/a1/" + AdoptedDir + "/a2"); err == nil {
				f.t.Error("the directory of the adopted agent stays")
			}
		})
	})
}

// If the agents have not come from the store, an agent may be away with its directory. Its state is adopted only when
// the crawl would end.
func TestOrphanAtTheEnd(t *testing.T) {
	among(t, func(f *family) {
		f.save("a2", note{Boot: 3})
		f.save("a5", note{Boot: 3, Over: true})
		f.adopts(false, func(o *Orphans, k *Keeper) {
			if k.Held() != "" {
				f.t.Error("visits wait")
			}
			time.Sleep(10 * time.Minute)
			if f.done() != "" {
				f.t.Errorf("adopted %q", f.done())
			}
			for f.done() == "" && f.t.Context().Err() == nil {
				if o.Claimed() {
					f.t.Fatal("the crawl may end")
				}
				time.Sleep(time.Second)
			}
		})
	})
}

// If a state cannot be adopted, an event tells it once, and the agent tries again. If a heir is lost before its state
// has all, the state is an orphan again. With replicas, the agents that are there have all.
func TestOrphansThatWait(t *testing.T) {
	among(t, func(f *family) {
		f.save("a2", note{Boot: 3, Left: true, Heirs: map[string]heir{"a1": {Boot: 7, Number: 9}}})
		f.save("a3", note{Boot: 3, Left: true, Heirs: map[string]heir{"a9": {Boot: 7, Number: 9}}})
		f.fails = errors.New("no keys")
		f.adopts(true, func(o *Orphans, k *Keeper) {
			time.Sleep(9 * time.Minute)
			if n := strings.Count(fmt.Sprint(f.events), "adoption-failed"); n != 1 || k.Held() == "" {
				f.t.Errorf("%d events: %q", n, f.events)
			}
			time.Sleep(2 * time.Minute)
			if k.Held() != "" {
				f.t.Error("visits wait for ever")
			}
			if got := o.Unclaimed(); !strings.Contains(got, "agent a3,") {
				f.t.Errorf("waits for %q", got)
			}
			f.mu.Lock()
			f.fails = nil
			f.mu.Unlock()
			time.Sleep(4 * time.Minute)
			if f.done() != "a3" {
				f.t.Errorf("adopted %q", f.done())
			}
		})
		f.replicated = true
		f.save("a4", note{Boot: 3})
		f.adopts(false, func(o *Orphans, k *Keeper) {
			time.Sleep(time.Minute)
			if got := o.Unclaimed(); got != "" || !o.Claimed() {
				f.t.Errorf("waits for %q", got)
			}
		})
	})
}

// A state that cannot be read is no reason to wait: an event names its object, once, and the crawl goes on. The others
// are adopted.
func TestUnreadableStates(t *testing.T) {
	among(t, func(f *family) {
		const state = "crawl-data/web/state/"
		put := func(key string, b []byte) {
			store := must.Get(stores.Open(f.mem, f.keeper("", "").Store, object.Config{}))(f.t)
			must.Get(store.Put(f.t.Context(), key, bytes.NewReader(b), object.Condition{Mutable: true}))(f.t)
		}
		lists := func(agent string) (keys []string) {
			for _, key := range f.store.Keys() {
				if strings.HasPrefix(key, state+agent+"/images/") {
					keys = append(keys, key)
				}
			}
			return keys
		}
		f.save("a2", note{Boot: 3})
		f.saveNote("form", `"text"`)
		f.saveNote("type", `{"boot":"x"}`)
		f.save("large", note{Boot: 3})
		put(state+"large/current.json", bytes.Repeat([]byte{' '}, 1<<20))
		put(state+"foreign/readme.txt", []byte("not ours"))
		f.save("torn", note{Boot: 3})
		f.save("gone", note{Boot: 3})
		for _, key := range lists("torn") {
			put(key, []byte("{"))
		}
		for _, key := range lists("gone") {
			must.Do(f.t, f.store.Delete(f.t.Context(), key))
		}
		f.adopts(true, func(o *Orphans, k *Keeper) {
			time.Sleep(15 * time.Minute)
			if f.done() != "a2" || k.Held() != "" || o.Unclaimed() != "" || !o.Claimed() {
				f.t.Errorf("adopted %q, held %q, unclaimed %q", f.done(), k.Held(), o.Unclaimed())
			}
			for _, agent := range []string{"form", "type", "large", "foreign", "torn", "gone"} {
				of, n := "state-unreadable [{agent "+agent+"} {object s3://bucket/"+state+agent+"/", 0
				for _, e := range f.events {
					if strings.HasPrefix(e, of) {
						n++
					}
				}
				if n != 1 {
					f.t.Errorf("%d events of %s: %q", n, agent, f.events)
				}
			}
			if ok, err := k.Save(f.t.Context(), agentOf{"form", "large", "torn", "gone"}); !ok || err != nil {
				f.t.Errorf("a state is not saved beside them: %t, %v", ok, err)
			}
		})
	})
}

// An agentOf is an Agent at rest that sees others.
type agentOf []string

func (agentOf) Cut(_ context.Context, _ States, take func() error) (bool, error) { return true, take() }
func (agentOf) Visiting() bool                                                   { return false }
func (a agentOf) Others() []string                                               { return a }
func (agentOf) Stored(context.Context) error                                     { return nil }

// States of another crawl that has the same name in the store are left alone: of one that was replaced, or of an agent
// that crawled alone.
func TestStatesOfAnotherCrawl(t *testing.T) {
	among(t, func(f *family) {
		f.save("a2", note{Boot: 3, Crawl: rpc.ID{2}.String()})
		f.save("agent", note{})
		f.save("a3", note{Boot: 3, Crawl: (&family{}).Crawl().String()})
		f.adopts(true, func(o *Orphans, k *Keeper) {
			time.Sleep(20 * time.Second)
			if got := o.Unclaimed(); !strings.Contains(got, "agent a3,") {
				f.t.Errorf("waits for %q", got)
			}
			time.Sleep(4 * time.Minute)
			if f.done() != "a3" || k.Held() != "" || !o.Claimed() {
				f.t.Errorf("adopted %q, held %q, unclaimed %q", f.done(), k.Held(), o.Unclaimed())
			}
		})
	})
}

// The identity of the crawl is in each state, when it is known.
func TestStatesNameTheirCrawl(t *testing.T) {
	among(t, func(f *family) {
		for want, members := range map[string]interface{ Crawl() rpc.ID }{
			"": nil, (&family{}).Crawl().String(): f,
		} {
			k := f.keeper("b"+want, "/b"+want)
			k.Members = members
			must.Do(f.t, f.mem.MkdirAll(k.Dir+"/state", 0o755))
			must.Do(f.t, k.Open(f.t.Context(), false, false))
			must.Do(f.t, k.Last(End{}))
			if _, n, err := k.read(f.t.Context(), k.Agent); err != nil || n.Crawl != want {
				f.t.Errorf("%+v, %v, want %q", n, err, want)
			}
		}
	})
}

// An agent that has gone keeps the crawl from its end until a state was cut after it had left.
func TestOwed(t *testing.T) {
	var o owed
	o.see([]string{"a2", "a3"})
	if got := o.gone(); got != nil || o.due() {
		t.Errorf("gone: %q", got)
	}
	if got := o.see([]string{"a3"}); !slices.Equal(got, []string{"a2", "a3"}) {
		t.Errorf("asks for %q", got)
	}
	if got := o.gone(); !slices.Equal(got, []string{"a2"}) || !o.due() || o.due() {
		t.Errorf("gone: %q", got)
	}
	if o.settle([]string{"a2", "a3"}); o.gone() != nil {
		t.Error("a2 is settled")
	}
	if got := o.see(nil); !slices.Equal(got, []string{"a3"}) {
		t.Errorf("asks for %q", got)
	}
}

// A single agent that finds the states of a cluster is told their names.
func TestStatesOfACluster(t *testing.T) {
	among(t, func(f *family) {
		f.save("a2", note{})
		f.save("a3", note{})
		for dir, must := range map[string]bool{"/x/web": false, "/y/other": true} {
			s := Series{Store: stores.Place{URL: "s3://bucket/", Backend: f.store}, FS: f.mem, Dir: dir}
			err := Bring(f.t.Context(), s, must)
			if _, ok := errors.AsType[*input.ConfigError](err); !ok || !strings.Contains(fmt.Sprint(err), "a2, a3") {
				f.t.Errorf("%s: %v", dir, err)
			}
		}
		s := Series{Store: stores.Place{URL: "s3://bucket/", Backend: f.store}, FS: f.mem, Dir: "/y/other"}
		if err := Bring(f.t.Context(), s, false); err != nil {
			f.t.Errorf("a new crawl: %v", err)
		}
	})
}
