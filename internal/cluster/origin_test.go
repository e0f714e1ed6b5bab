package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// A host whose port 81 is dead moves to another agent after two tries of the port. The agent continues to count: after
// two more tries all URLs of the port fail, and the other port has lost none of its pages.
func TestFailingOriginMoves(t *testing.T) {
	const retries = 3
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, members: [][]string{{"a0", "a1"}, {"a1"}}}
		host := ""
		for i := 0; host == "" || c.order(host, 0)[0] != "a0"; i++ {
			host = fmt.Sprintf("h%d.example", i)
		}
		text := fmt.Sprintf("seed http://%s/\ndelay 1s\ndns %[1]s 192.0.2.1\ndown 192.0.2.1:81 0s 1h\n", host)
		for i := range 60 {
			path := ""
			if i > 0 {
				path = fmt.Sprint(i)
			}
			text += fmt.Sprintf("http://%s/%s /%d http://%[1]s:81/%[3]d\n", host, path, i+1)
		}
		c.Diary = textweb.NewDiary(newStory(t, text).web, 1, 22)
		for _, name := range c.members[0] {
			n := &node{c: c, mem: testdisk.NewMem(), story: newStory(t, text)}
			n.name, n.web = name, c.Web
			n.cfg.Retries, n.cfg.RetryWait, n.cfg.Seed = retries, 10*time.Second, 1
			n.joins(c, outbox.Config{ParkWait: time.Second})
			n.start(0)
		}
		a0, a1 := c.nodes[0], c.nodes[1]
		time.Sleep(20 * time.Second) // the tries are at 2 s and 12 s
		lines := a0.w.Load().parts.Lines(t, a0.mem)
		a0.leave()
		for _, n := range c.nodes {
			n.sees(1)
			n.w.Load().cl.ViewChanged()
		}
		time.Sleep(5 * time.Second)
		said, err := a1.w.Load().View.Explain(context.Background(), host)
		if err != nil || !strings.Contains(said, host+":81: 2 failures in a row (robots-unreachable)") {
			t.Errorf("the new owner says: %s, %v", said, err)
		}
		for !a0.left.Load() {
			time.Sleep(time.Second)
		}
		c.finish()
		if stop := <-a1.ended; stop != crawl.Finished {
			t.Errorf("stop %s", stop)
		}
		w := a1.w.Load()
		tries, failed := 0, 0
		for _, l := range append(lines, w.parts.Lines(t, a1.mem)...) {
			switch dead := strings.Contains(l.URL, ":81/"); {
			case dead && strings.HasSuffix(l.Hops, "P"):
				tries++
			case dead && l.Code == -61:
				failed++
			}
		}
		pages := len(c.Web.Told()) - 3 // without the two fetches of its robots.txt, and the page that is missing
		if tries != retries+1 || pages != 60 || failed != 60 {
			t.Errorf("%d tries, %d pages, %d URLs failed; want %d, 60, 60", tries, pages, failed, retries+1)
		}
		if err := errors.Join(w.close(), w.cl.Outbox.Close()); err != nil {
			t.Error(err)
		}
	})
}
