package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A notebook is a Names and a List in memory, whose Commit fails with an error.
type notebook struct {
	of    handoff.Source
	urls  []string // with the Refetches and the archive
	fails error
	open  int
	left  bool // the agent has left, with its archive
}

func (n *notebook) Each(func(link.Link, bool, string) error) error { return nil }

func (n *notebook) List(of handoff.Source) (l List, whole bool, err error) {
	n.of, n.urls = of, nil
	n.open++
	return n, !n.left, nil
}

func (n *notebook) Add(l link.Link, archive string) error {
	n.urls = append(n.urls, fmt.Sprint(l.URL, " ", l.Refetches(), " ", archive))
	return nil
}

func (n *notebook) Commit() error { return n.fails }

func (n *notebook) Close() error {
	n.open--
	return nil
}

// TestListBeforeDrop: a replica is kept until the list of the lost archive is durable. The list has what the
// archive had, by the records of both kinds. If the agent has left with its archive, the list has only what the
// agent's own lists had. What an archive had that was lost before goes to the list of that archive.
func TestListBeforeDrop(t *testing.T) {
	for _, left := range []bool{false, true} {
		t.Run(fmt.Sprint("left ", left), func(t *testing.T) { listBeforeDrop(t, left) })
	}
}

func listBeforeDrop(t *testing.T, left bool) {
	store, err := handoff.Open(testdisk.NewMem(), "replica", handoff.Config{})
	must.Do(t, err)
	defer store.Close()
	lost := handoff.Source{Name: "a2", Instance: [16]byte{7}}
	var batch []byte
	for url, r := range map[string]handoff.Record{"http://a.example/1": {Disposition: handoff.Archived},
		"http://b.example/2": {Disposition: handoff.Lost},
		"http://b.example/3": {Disposition: handoff.Lost, Archive: "a3-01020304"}} {
		link := link.Link{URL: weburl.MustParse(url)}
		if r.Disposition == handoff.Lost {
			link.SetRefetches(3)
		}
		r.Kind, r.Link = handoff.Named, link.AppendTo(nil)
		batch = r.AppendTo(batch)
	}
	must.Do(t, store.Append(lost, batch))
	full := errors.New("the disk is full")
	names := &notebook{fails: full, left: left}
	cl := New(Others{Names: names})
	takeOver := func() (Taken, error) {
		return cl.TakeOver(context.Background(), store, lost, func(string) bool { return true })
	}
	if _, err := takeOver(); !errors.Is(err, full) || len(store.Sources()) != 1 {
		t.Errorf("the list cannot be written: %v, %d replicas; want the error, and the replica", err,
			len(store.Sources()))
	}
	names.fails = nil
	n, err := takeOver()
	want := []string{"http://a.example/1 0 a2-07000000", "http://b.example/2 3 a2-07000000",
		"http://b.example/3 3 a3-01020304"}
	if left {
		want = want[1:]
	}
	if err != nil || len(store.Sources()) != 0 || n.Named != int64(len(want)) {
		t.Errorf("the list can be written: %+v, %v, %d replicas", n, err, len(store.Sources()))
	}
	slices.Sort(names.urls)
	if !slices.Equal(names.urls, want) {
		t.Errorf("the lists that %v leaves have %q, want %q", names.of, names.urls, want)
	}
	if names.open != 0 {
		t.Errorf("%d lists are open", names.open)
	}
}
