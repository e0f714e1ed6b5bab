package saving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// pieceBytes is how much of a file is read at once.
const pieceBytes = 8 << 20

// Fetch claims a series and brings its newest state into Dir, which holds no crawl. If s names no crawl, it is the only
// one of the store that has a saved state of the agent. Fetch returns when no other process can fetch pages for the
// series any more, which may take a minute and a half. It can be repeated after a kill. Dir holds a crawl when it has
// all that Fetch brings: a kill after that leaves the wait, which Keeper.Open makes up for. The error is an
// *input.ConfigError if there is no state, and a disk.ErrLocked if another process has Dir open: then Fetch has claimed
// nothing.
func Fetch(ctx context.Context, s Series) (image.Saved, error) {
	p, err := s.open(s.Agent, object.Config{Waits: s.Notes})
	if err != nil {
		return image.Saved{}, input.Errorf("{store} %v", err)
	}
	if s.Crawl == "" {
		if s.Crawl, err = s.find(ctx, p.Store); err != nil {
			return image.Saved{}, err
		}
		p.Prefix = s.prefix(s.Agent)
	}
	if _, err := image.Look(ctx, p); errors.Is(err, image.ErrNone) {
		return image.Saved{}, s.none()
	} else if err != nil && !errors.Is(err, image.ErrDamaged) { // a claim mends what a kill has left
		return image.Saved{}, err
	}
	lock, err := s.lock()
	if err != nil {
		return image.Saved{}, err
	}
	defer lock.Close()
	c := claimConfig
	c.Holder, c.Generation = s.Agent, s.Generation
	saver, err := image.Claim(ctx, p, c)
	if err != nil {
		return image.Saved{}, err
	}
	fsys, own := s.disk(), ownRun{Fetched: true, Until: until(p, saver)}
	if err := writeRun(fsys, s.Dir, p, saver, own); err != nil {
		return image.Saved{}, err
	}
	v, err := image.Restore(ctx, p, s.target(p.Store))
	if err != nil {
		return v, err
	}
	if err := s.await(ctx, p, saver, own); err != nil {
		return v, err
	}
	return v, writeRun(fsys, s.Dir, p, saver, ownRun{Alone: true, Restored: true, Fetched: true})
}

// Bring is Fetch for the beginning of a crawl: it does nothing if Dir holds one. If s names no crawl, it is the one
// that is named like Dir, or else the only one that the store has. If must is false, the store need not have a state:
// then the crawl is new.
func Bring(ctx context.Context, s Series, must bool) error {
	there, err := crawldir.HoldsCrawl(s.disk(), s.Dir)
	if err != nil {
		return err
	}
	p, err := s.open(s.Agent, object.Config{Tries: 5})
	if err != nil {
		return input.Errorf("{store} %v", err)
	}
	if there {
		if left, err := image.Unfinished(s.target(p.Store)); err != nil || !left {
			return err
		}
		lock, err := s.lock()
		if err != nil {
			return err
		}
		defer lock.Close()
		_, err = image.Restore(ctx, p, s.target(p.Store)) // removes what a kill has left
		return err
	}
	abs, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	if s.Crawl == "" {
		s.Crawl = disk.SafeName(filepath.Base(abs))
		p.Prefix = s.prefix(s.Agent)
		if _, err := image.Look(ctx, p); errors.Is(err, image.ErrNone) {
			s.Crawl = ""
		}
	}
	v, err := Fetch(ctx, s)
	if err != nil && ctx.Err() != nil {
		return errors.New("stopped before the state was here; run the command again to go on")
	}
	if _, none := errors.AsType[*input.ConfigError](err); none {
		if of := s.ofCluster(ctx, p.Store, filepath.Base(abs), must); of != nil {
			return of
		}
		if !must {
			return nil
		}
	}
	if err == nil && s.Notes != nil {
		s.Notes.Note(fmt.Sprintf("the crawl goes on from its state of %s: %s in %d files",
			v.Taken.UTC().Format(time.RFC3339), humanize.Bytes(uint64(v.Bytes)), v.Files))
	}
	return err
}

// target is where a state is restored. Its segments come before the mark of a crawl.
func (s *Series) target(store *object.Store) image.Target {
	return image.Target{FS: s.disk(), Dir: s.Dir, Last: crawldir.Marker, Rest: &segments{s, store}}
}

// none says that the store has no state of the series.
func (s *Series) none() error {
	of, give := "", "{store}"
	if s.Crawl != "" {
		of, give = " of a crawl named "+s.Crawl, "{dir}"
	}
	if s.Agent != "" {
		of, give = " of agent "+s.Agent+of, "{name} or "+give
	}
	return input.Errorf("%s has no saved state%s; give another "+give, s.Store.URL, of)
}

// find returns the only crawl of a store that has a saved state of the agent.
func (s *Series) find(ctx context.Context, store *object.Store) (string, error) {
	var crawls []string
	root := warc.CrawlData + "/"
	for after := root; ; {
		page, err := store.List(ctx, root, after, 1)
		if err != nil {
			return "", err
		}
		if len(page.Objects) == 0 {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(page.Objects[0].Key, root), "/")
		found, err := store.List(ctx, path.Join(root, name, "state", s.agent())+"/", "", 1)
		if err != nil {
			return "", err
		}
		if len(found.Objects) > 0 {
			crawls = append(crawls, name)
		}
		after = root + name + "0" // after all keys with a slash
	}
	switch len(crawls) {
	case 0:
		return "", s.none()
	case 1:
		return crawls[0], nil
	}
	return "", input.Errorf("%s has saved states of several crawls (%s): name a {dir} like one of them", s.Store.URL,
		strings.Join(crawls, ", "))
}

// segments brings what readers need of the segments of this agent: their manifests and indexes, and the note that the
// store has the rest. It implements image.Rest.
type segments struct {
	*Series
	store *object.Store
}

// Bring implements image.Rest.
func (s *segments) Bring(ctx context.Context) error {
	if err := s.all(ctx); err != nil {
		return fmt.Errorf("segments of %s: %w", s.Dir, err)
	}
	return nil
}

func (s *segments) all(ctx context.Context) error {
	fsys := s.disk()
	indexed, err := fsys.ReadDir(filepath.Join(s.Dir, "state", "index"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own := map[string]bool{}
	for _, e := range indexed {
		if name, ok := strings.CutSuffix(e.Name(), ".cdxj"); ok {
			own[name+".warc.gz"] = true
		}
	}
	prefix := path.Join(warc.CrawlData, s.Crawl, "segments") + "/"
	mine, whole := map[string]bool{}, map[string]bool{}
	for after, more := "", true; more; {
		page, err := s.store.List(ctx, prefix, after, object.MaxList)
		if err != nil {
			return err
		}
		for _, o := range page.Objects {
			name, file, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
			mine[name] = mine[name] || own[path.Base(file)]
			whole[name] = whole[name] || file == segment.SuccessName
		}
		after, more = page.Next, page.Next != ""
	}
	for name := range mine {
		if !mine[name] || !whole[name] {
			continue
		}
		if err := s.segment(ctx, prefix+name+"/", name); err != nil {
			return err
		}
	}
	return nil
}

func (s *segments) segment(ctx context.Context, prefix, name string) error {
	fsys, dir := s.disk(), filepath.Join(warc.SegmentsDir(s.Dir, s.Crawl), name)
	if err := warc.MakeDirs(fsys, s.Dir, dir); err != nil {
		return err
	}
	for _, file := range []string{segment.IndexName, segment.ManifestName} {
		i, err := s.store.Stat(ctx, prefix+file)
		if err != nil {
			return err
		}
		if err := disk.WriteStream(fsys, filepath.Join(dir, file), func(w io.Writer) error {
			for at := int64(0); at < i.Size; at += pieceBytes {
				b, err := s.store.Read(ctx, prefix+file, at, min(pieceBytes, i.Size-at))
				if err != nil {
					return err
				}
				if _, err := w.Write(b); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	at := []byte(s.store.Location("") + "\n")
	if err := disk.WriteFile(fsys, filepath.Join(dir, segment.StoredName), at); err != nil {
		return err
	}
	return disk.WriteFile(fsys, filepath.Join(dir, segment.SuccessName), nil)
}
