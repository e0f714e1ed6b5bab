package crawl

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/frontier"
	"github.com/orbweaver/orbweaver/journal"
	"github.com/orbweaver/orbweaver/report"
	"github.com/orbweaver/orbweaver/robots"
	"github.com/orbweaver/orbweaver/weburl"
)

// Recovered says what an earlier run left.
type Recovered struct {
	Accepted, Finished, Pending int64
	// Repeated counts the finishes whose WARC record did not survive a power
	// failure: those URLs are pending again.
	Repeated int64
}

// Recover rebuilds seen, frontier, robots cache and counts from the journal in
// dir, before Seed and Run. whole is the length of each WARC file: a power
// failure can take from it what the journal calls finished.
//
// Two passes: the first learns which URLs are finished, the second queues the
// others in the order in which they were accepted.
func (c *Crawler) Recover(fs disk.FS, dir string, whole map[string]int64, now time.Time) (Recovered, error) {
	var r Recovered
	finished := map[weburl.Key]struct{}{}
	lost := func(f *finish) bool {
		n, known := whole[f.file]
		return f.file != "" && known && f.end > n
	}
	_, err := journal.Replay(fs, dir, func(kind byte, p []byte) error {
		if kind != kindFinish {
			return nil
		}
		f, err := decodeFinish(p)
		if err != nil {
			return err
		}
		switch {
		case f.flags&flagRobots != 0:
		case lost(&f):
			r.Repeated++
		default:
			finished[f.link.URL.Key()] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	delays := map[string]time.Duration{}
	var keys []weburl.Key
	var batch []weburl.Link
	push := func() error {
		err := c.Frontier.Push(batch)
		batch = batch[:0]
		return err
	}
	_, err = journal.Replay(fs, dir, func(kind byte, p []byte) error {
		switch kind {
		case kindAccept:
			l, _, err := weburl.DecodeLink(p)
			if err != nil {
				return err
			}
			r.Accepted++
			k := l.URL.Key()
			keys = append(keys[:0], k)
			if err := c.Seen.Restore(keys); err != nil {
				return err
			}
			if c.Queries != nil {
				c.Queries.Admit(l.URL)
			}
			if _, ok := finished[k]; ok {
				return nil
			}
			if batch = append(batch, l); len(batch) == 1024 {
				return push()
			}
			return nil
		case kindFinish:
			f, err := decodeFinish(p)
			if err != nil {
				return err
			}
			if !f.began.IsZero() && f.began.Unix() > 0 {
				delays[f.link.URL.Host()] = max(delays[f.link.URL.Host()], f.delay)
			}
			if lost(&f) {
				return nil
			}
			r.Finished++
			c.count(&f)
			return nil
		case kindHost:
			st, err := frontier.DecodeHostState(p)
			if err != nil {
				return err
			}
			c.Frontier.Restore(st)
			if st.Delay > 0 {
				delays[st.Host] = max(delays[st.Host], st.Delay)
			}
			return nil
		case kindRobots:
			e, err := robots.DecodeEntry(p)
			if err != nil {
				return err
			}
			c.Robots.Restore(e)
			return nil
		case kindKeys:
			var err error
			if keys, err = decodeKeys(keys[:0], p); err != nil {
				return err
			}
			return c.Seen.Restore(keys)
		case kindTally:
			return c.Tally.Decode(p)
		case kindSpan:
			started, took, err := decodeSpan(p)
			if err != nil {
				return err
			}
			c.Tally.Start(started)
			c.earlier = took
			return nil
		case kindSeed:
			u, err := weburl.Parse(string(p))
			if err != nil {
				return err
			}
			c.widen(u)
			return nil
		}
		return fmt.Errorf("%w: kind %q", errRecord, kind)
	})
	if err == nil {
		err = push()
	}
	if err != nil {
		return r, err
	}
	c.Tally.SetUnique(c.Seen.Len())
	for host, d := range delays {
		c.Frontier.Touched(host, d, now)
	}
	r.Pending = c.Frontier.Pending()
	if r.Pending > 0 {
		c.nextSlot = now.Add(c.cfg.ResumeWait)
	}
	if r.Repeated > 0 {
		// The WARC file may grow past the lost records' ends, or go: from now
		// on the journal must not call those URLs finished.
		return r, c.snapshot()
	}
	return r, nil
}

// count counts a finish of an earlier run.
func (c *Crawler) count(f *finish) {
	c.Tally.Add(visitOf(f))
	if f.file != "" && f.flags&flagDuplicate == 0 {
		c.Archive.Remember(f.digest, f.link.URL.String(), f.began)
	}
}

// save writes the journal when it is time: archive and logs first (the
// journal's Before sees to that), so that a finish never outlives its record.
func (c *Crawler) save(now time.Time) {
	if c.fatal != nil || !c.dirty {
		return
	}
	switch {
	case now.Sub(c.synced) >= c.cfg.SyncEvery:
		c.batch.add(kindSpan, c.span(now))
		if c.append(); c.fatal != nil {
			return
		}
		c.fatal = c.Journal.Sync()
		c.synced, c.committed, c.dirty = now, now, false
	case now.Sub(c.committed) >= c.cfg.CommitEvery:
		c.fatal = c.Journal.Commit()
		c.committed = now
	}
	if c.fatal == nil && c.Journal.SinceSnapshot() > max(c.cfg.SnapshotBytes, c.snapSize) {
		c.fatal = c.snapshot()
	}
}

// snapshot replaces the journal by what it amounts to: the same records, each
// said once.
func (c *Crawler) snapshot() error {
	began, size := time.Now(), int64(0)
	err := c.Journal.Snapshot(func(put func(kind byte, p []byte) error) error {
		var buf []byte
		add := func(kind byte, p []byte) error {
			size += int64(len(p))
			return put(kind, p)
		}
		if err := add(kindSpan, c.span(time.Now())); err != nil {
			return err
		}
		for _, u := range c.widened {
			if err := add(kindSeed, []byte(u.String())); err != nil {
				return err
			}
		}
		if err := add(kindTally, c.Tally.AppendTo(nil)); err != nil {
			return err
		}
		if err := c.Seen.Each(func(ks []weburl.Key) error {
			buf = appendKeys(buf[:0], ks)
			return add(kindKeys, buf)
		}); err != nil {
			return err
		}
		if err := c.Robots.Each(func(e robots.Entry) error {
			buf = e.AppendTo(buf[:0])
			return add(kindRobots, buf)
		}); err != nil {
			return err
		}
		if err := c.Frontier.EachHost(func(st frontier.HostState) error {
			buf = st.AppendTo(buf[:0])
			return add(kindHost, buf)
		}); err != nil {
			return err
		}
		if err := c.Frontier.EachEncoded(func(enc []byte) error {
			if l, _, err := weburl.DecodeLink(enc); err != nil || isErrand(l) {
				return err
			}
			return add(kindAccept, enc)
		}); err != nil {
			return err
		}
		for _, d := range c.later {
			buf = d.link.AppendTo(buf[:0])
			if err := add(kindAccept, buf); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	c.snapSize = size
	c.Events.Write("checkpoint", report.F("bytes", c.snapSize), report.F("took_ms", time.Since(began).Milliseconds()))
	return nil
}
