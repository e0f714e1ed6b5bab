package crawl

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/frontier"
	"github.com/orbweaver/orbweaver/journal"
	"github.com/orbweaver/orbweaver/report"
	"github.com/orbweaver/orbweaver/robots"
	"github.com/orbweaver/orbweaver/weburl"
)

// A checkpoint replaces the journal by what it amounts to: the same records,
// each said once. What is small (counts, hosts, paths) the dispatcher writes at
// one instant. What grows with the crawl is merged beside it, from the files
// that the checkpoint replaces: the keys of all URLs, and the links that were
// accepted and are not finished, in the order of their acceptance.
//
//	snapshot K, P     -> keys -> K
//	segments A        -> keys -> K
//	         A without F      -> P
//
// So a crawl goes on while its state, however large, is written anew.
type checkpoint struct {
	*journal.Checkpoint
	began time.Time
	bytes int64
	done  chan error // of the merge; it never blocks

	states lastStates
}

// put appends a record.
func (k *checkpoint) put(kind byte, p []byte) error {
	k.bytes += int64(len(p))
	return k.Append(kind, p)
}

// beginCheckpoint starts one. lost says which finishes do not count, because
// their WARC records are gone; nil: all count.
func (c *Crawler) beginCheckpoint(lost func(*finish) bool) error {
	j, err := c.Journal.Begin()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	k := &checkpoint{Checkpoint: j, began: time.Now(), done: make(chan error, 1), states: lastStates{}}
	if err := c.putSmall(k); err != nil {
		k.Abandon()
		return fmt.Errorf("checkpoint: %w", err)
	}
	c.checkpoint = k
	go func() {
		err := k.merge(c.Archive, c.Robots, lost)
		if err != nil {
			k.Abandon()
		} else {
			err = k.Finish()
		}
		k.done <- err
	}()
	return nil
}

// endCheckpoint puts the checkpoint in the making into service; wait waits for
// it. Without one it does nothing.
func (c *Crawler) endCheckpoint(wait bool) error {
	k := c.checkpoint
	if k == nil {
		return nil
	}
	var err error
	if wait {
		err = <-k.done
	} else {
		select {
		case err = <-k.done:
		default:
			return nil
		}
	}
	c.checkpoint = nil
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := c.Journal.Adopt(k.Checkpoint, nil); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	c.snapSize = k.bytes
	c.Events.Write("checkpoint", report.F("bytes", c.snapSize), report.F("took_ms", time.Since(k.began).Milliseconds()))
	return nil
}

// putSmall writes what the dispatcher owns.
func (c *Crawler) putSmall(k *checkpoint) error {
	if err := k.put(kindSpan, c.span(time.Now())); err != nil {
		return err
	}
	for _, u := range c.widened {
		if err := k.put(kindSeed, []byte(u.String())); err != nil {
			return err
		}
	}
	var buf []byte
	for tally := c.Tally.AppendTo(nil); ; {
		n := min(len(tally), tallyPiece)
		more := byte(0)
		if n < len(tally) {
			more = 1
		}
		buf = append(append(buf[:0], more), tally[:n]...)
		if err := k.put(kindTally, buf); err != nil {
			return err
		}
		if tally = tally[n:]; more == 0 {
			break
		}
	}
	if c.Queries != nil {
		buf = buf[:0]
		c.Queries.Each(func(path uint64, n uint32) error {
			buf = binary.BigEndian.AppendUint64(buf, path)
			buf = binary.BigEndian.AppendUint32(buf, n)
			return nil
		})
		if err := k.put(kindQueries, buf); err != nil {
			return err
		}
	}
	return c.Frontier.EachHost(func(st frontier.HostState) error {
		buf = st.AppendTo(buf[:0])
		return k.put(kindHost, buf)
	})
}

// merge writes the rest. It reads files that nobody changes any more, and asks
// rooms that may be asked by many.
func (k *checkpoint) merge(a *archive.Writer, rc *robots.Cache, lost func(*finish) bool) error {
	var buf []byte
	if err := a.EachRemembered(func(digest [20]byte, o archive.Original) error {
		buf = appendOriginal(buf[:0], digest, o)
		return k.put(kindDigest, buf)
	}); err != nil {
		return err
	}
	// What is remembered now may have been written since the checkpoint began:
	// a payload that is recognized must be there after a crash.
	if err := a.Sync(); err != nil {
		return err
	}
	if err := rc.Each(func(e robots.Entry) error {
		buf = e.AppendTo(buf[:0])
		return k.put(kindRobots, buf)
	}); err != nil {
		return err
	}
	finished, err := k.finished(lost)
	if err != nil {
		return err
	}
	keys := make([]weburl.Key, 0, keysPiece)
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		buf = appendKeys(buf[:0], keys)
		keys = keys[:0]
		return k.put(kindKeys, buf)
	}
	err = k.Replay(false, func(kind byte, p []byte) error {
		switch kind {
		case kindKeys:
			return k.put(kind, p)
		case kindAccept, kindPending:
			l, _, err := weburl.PeekLink(p)
			if err != nil {
				return err
			}
			key := l.URL.Key()
			if kind == kindAccept { // the others are among the snapshot's keys
				if keys = append(keys, key); len(keys) == cap(keys) {
					if err := flush(); err != nil {
						return err
					}
				}
			}
			if finished.has(key) {
				return nil
			}
			return k.put(kindPending, p)
		case kindFinish, kindState:
			return k.putState(kind, p, lost)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// keysPiece is how many keys a record holds.
const keysPiece = 4096

// finished is the URLs that were finished since the snapshot.
func (k *checkpoint) finished(lost func(*finish) bool) (keySet, error) {
	var keys []weburl.Key
	err := k.Replay(true, func(kind byte, p []byte) error {
		if kind != kindFinish {
			return nil
		}
		f, err := decodeFinish(p)
		if err != nil {
			return err
		}
		if f.flags&flagRobots == 0 && (lost == nil || !lost(&f)) {
			keys = append(keys, f.link.URL.Key())
			k.states.saw(&f)
		}
		return nil
	})
	return newKeySet(keys), err
}

// A keySet is a set of keys that does not change: 16 bytes a key and 4 to 8
// for the index, where a look-up finds its place in the sorted keys.
type keySet struct {
	keys  []weburl.Key
	start []uint32 // by the first bits of Path, and the end behind the last
	shift int
}

// newKeySet makes a set of keys, which it sorts.
func newKeySet(keys []weburl.Key) keySet {
	n := max(bits.Len(uint(len(keys))), 1)
	s := keySet{keys: keys, start: make([]uint32, 1<<n+1), shift: 64 - n}
	slices.SortFunc(keys, func(a, b weburl.Key) int { return cmp.Compare(a.Path, b.Path) })
	at := 0
	for i := range s.start {
		for at < len(keys) && keys[at].Path>>s.shift < uint64(i) {
			at++
		}
		s.start[i] = uint32(at)
	}
	return s
}

func (s *keySet) has(k weburl.Key) bool {
	i := k.Path >> s.shift
	return slices.Contains(s.keys[s.start[i]:s.start[i+1]], k)
}
