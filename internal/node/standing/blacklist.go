package standing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// blacklistBytes bounds the file.
const blacklistBytes = 64 << 20

// A blacklist is the content of its file: one entry on each line.
type blacklist struct {
	bars     []crawl.Bar
	patterns []crawl.Exclusion
}

func (b *blacklist) len() int { return len(b.bars) + len(b.patterns) }

// parseBlacklist reads a blacklist. The error names the first line that is wrong.
func parseBlacklist(name string, content []byte) (*blacklist, error) {
	b := &blacklist{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
		n++
		s := withoutComment(line)
		if s == "" {
			continue
		}
		if err := b.add(s, fmt.Sprintf("%s, line %d", name, n)); err != nil {
			return nil, input.Errorf("%s, line %d: %v", name, n, err)
		}
	}
	return b, nil
}

// withoutComment returns a line without white space around it and without its comment, which begins with # at the start
// of the line or after white space.
func withoutComment(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
			break
		}
	}
	return strings.TrimSpace(s)
}

// add adds an entry: a domain such as *.example.org, a range of addresses, a host, or a pattern for URLs.
func (b *blacklist) add(s, why string) error {
	about, wide, err := input.Wide(s)
	switch {
	case err != nil:
		return err
	case wide:
		bar := crawl.Bar{Why: why}
		if domain, ok := strings.CutPrefix(about, "*."); ok {
			bar.Domain = domain
		} else if bar.Prefix, err = netip.ParsePrefix(about); err != nil {
			return err
		}
		b.bars = append(b.bars, bar)
		return nil
	case input.LooksLikeHost(s):
		host, err := input.Host(s)
		if err != nil {
			return err
		}
		b.bars = append(b.bars, crawl.Bar{Host: host, Why: why})
		return nil
	}
	if err := sheet.CheckPattern(s); err != nil {
		return err
	}
	b.patterns = append(b.patterns, crawl.Exclusion{Pattern: s, Deeper: -1, Why: why})
	return nil
}

// A Stamp tells whether a file may have changed.
type Stamp struct {
	at   time.Time
	size int64
	err  string
}

// BlacklistStamp returns the stamp of the blacklist's file.
func (s *Orders) BlacklistStamp() Stamp {
	info, err := s.cfg.FS.Stat(s.cfg.Blacklist)
	if err != nil {
		return Stamp{err: err.Error()}
	}
	return Stamp{at: info.ModTime(), size: info.Size()}
}

// CheckBlacklist returns an *input.ConfigError if a file is no blacklist. An empty name is no file.
func CheckBlacklist(files disk.FS, name string) error {
	_, err := readBlacklist(files, name)
	return err
}

// readBlacklist reads a blacklist, or returns an empty one if name is empty. The error is an *input.ConfigError.
func readBlacklist(files disk.FS, name string) (*blacklist, error) {
	if name == "" {
		return &blacklist{}, nil
	}
	content, err := disk.ReadFile(files, name, blacklistBytes)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	if err != nil {
		return nil, input.Errorf("{exclude-file} %s: %v; name a file with an entry on each line", name, err)
	}
	return parseBlacklist("blacklist "+name, content)
}

// LookAtBlacklist reads the file if it has changed, and has not since the last look. So it reads no file that is being
// written. A file that cannot be read, or has a wrong line, changes nothing. Otherwise all of it takes the place of the
// blacklist before. If that fails because of the orders beside it, keep tries it again.
func (s *Orders) LookAtBlacklist(ctx context.Context, last Stamp) (now Stamp) {
	now = s.BlacklistStamp()
	if now != last || now == s.looked {
		return now
	}
	next, err := readBlacklist(s.cfg.FS, s.cfg.Blacklist)
	if s.BlacklistStamp() != now {
		return Stamp{} // it has changed meanwhile
	}
	s.looked = now
	if err != nil {
		s.cfg.Events.Write("blacklist-refused", report.F("file", s.cfg.Blacklist), report.F("error", err.Error()))
		if !errors.Is(err, context.Canceled) {
			s.cfg.Notes.Note(fmt.Sprintf("The blacklist is refused, and the one before stays in force: %v", err))
		}
		return now
	}
	if s.begin(ctx) != nil {
		s.looked = Stamp{} // the next look reads it again
		return now
	}
	s.blacklist = next
	if s.obey(ctx) != nil {
		s.kept = [32]byte{}
	}
	s.end()
	s.tellBlacklist(next)
	return now
}

func (s *Orders) Blacklist(ctx context.Context, q *pb.BlacklistsRequest) (*pb.Blacklist, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	b := s.blacklist // it may be replaced, and does not change
	s.end()
	r := b.find(q.Search, int64(q.Limit))
	r.File = s.cfg.Blacklist
	return r, nil
}

// find returns the entries that contain a text, at most limit.
func (b *blacklist) find(text string, limit int64) *pb.Blacklist {
	r := &pb.Blacklist{Entries: int64(b.len())}
	look := func(about, why string) {
		if !strings.Contains(about, text) {
			return
		}
		if r.Matches++; r.Matches <= limit {
			r.List = append(r.List, &pb.BlacklistEntry{About: about, Why: why})
		}
	}
	for _, bar := range b.bars {
		switch {
		case bar.Host != "":
			look(bar.Host, bar.Why)
		case bar.Domain != "":
			look("*."+bar.Domain, bar.Why)
		default:
			look(bar.Prefix.String(), bar.Why)
		}
	}
	for _, p := range b.patterns {
		look(p.Pattern, p.Why)
	}
	return r
}

// tellBlacklist writes to the events that a blacklist is in force.
func (s *Orders) tellBlacklist(b *blacklist) {
	s.cfg.Events.Write("blacklist", report.F("file", s.cfg.Blacklist), report.F("entries", b.len()),
		report.F("patterns", len(b.patterns)))
}
