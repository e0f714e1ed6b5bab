package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A notebook is a Names and a List in memory, whose Commit fails with an error.
type notebook struct {
	of    handoff.Source
	urls  []string
	fails error
	open  int
}

func (n *notebook) Each(func(weburl.URL, bool) error) error { return nil }

func (n *notebook) List(of handoff.Source) (List, error) {
	n.of, n.urls = of, nil
	n.open++
	return n, nil
}

func (n *notebook) Add(u weburl.URL) error {
	n.urls = append(n.urls, strings.Clone(u.String()))
	return nil
}

func (n *notebook) Commit() error { return n.fails }

func (n *notebook) Close() error {
	n.open--
	return nil
}

// TestListBeforeDrop: a replica is kept until the list of the lost archive is durable. The list has what the
// archive had, by the records of both kinds.
func TestListBeforeDrop(t *testing.T) {
	store, err := handoff.Open(testdisk.NewMem(), "replica", handoff.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lost := handoff.Source{Name: "a2", Instance: [16]byte{7}}
	var batch []byte
	for url, disposition := range map[string]byte{"http://a.example/1": handoff.Archived,
		"http://b.example/2": handoff.Lost} {
		r := handoff.Record{Kind: handoff.Named, Disposition: disposition,
			Link: weburl.Link{URL: weburl.MustParse(url)}.AppendTo(nil)}
		batch = r.AppendTo(batch)
	}
	if err := store.Append(lost, batch); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	names := &notebook{fails: full}
	cl := &Clustered{Others: Others{Names: names}}
	takeOver := func() (Taken, error) {
		return cl.TakeOver(context.Background(), store, lost, func(string) bool { return true })
	}
	if _, err := takeOver(); !errors.Is(err, full) || len(store.Sources()) != 1 {
		t.Errorf("the list cannot be written: %v, %d replicas; want the error, and the replica", err,
			len(store.Sources()))
	}
	names.fails = nil
	n, err := takeOver()
	if err != nil || len(store.Sources()) != 0 || n.Named != 2 {
		t.Errorf("the list can be written: %+v, %v, %d replicas", n, err, len(store.Sources()))
	}
	slices.Sort(names.urls)
	if want := []string{"http://a.example/1", "http://b.example/2"}; !slices.Equal(names.urls, want) {
		t.Errorf("the list of %v has %q, want %q", names.of, names.urls, want)
	}
	if names.open != 0 {
		t.Errorf("%d lists are open", names.open)
	}
}
