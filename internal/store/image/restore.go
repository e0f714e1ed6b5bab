package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// What Restore makes in the folder of the crawl, until it is done:
//
//	restoring/list.json    which image is fetched
//	restoring/files/...    its files
//	restoring/ready.json   all of them are whole, and are being moved to their places; it has the result of Restore
//	restored.json          all have been moved: ready.json was renamed
const (
	workName  = "restoring"
	listName  = "list.json"
	filesName = "files"
	readyName = "ready.json"
	doneName  = "restored.json"
)

// A Target is where Restore writes.
type Target struct {
	FS  disk.FS // nil: the machine's
	Dir string  // the folder of the crawl; it is made if it is missing
	// Last is the file that is moved to its place last, such as the one that marks a crawl. It may be "".
	Last string
	// Rest brings what the folder needs beside the image. Restore calls it when all files but Last are in their places,
	// and again after a kill. nil: the image is all.
	Rest Rest
}

// A Rest brings files that are not in an image. It can be repeated.
type Rest interface {
	Bring(ctx context.Context) error
}

func (t Target) disk() disk.FS {
	if t.FS == nil {
		return disk.OS
	}
	return t.FS
}

// Unfinished reports whether a kill has cut a Restore into a folder. Call Restore again: it goes on.
func Unfinished(t Target) (bool, error) {
	for _, name := range []string{workName, doneName} {
		_, err := t.disk().Stat(filepath.Join(t.Dir, name))
		if !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// Restore fetches the newest image into a folder, which may have other files. It verifies each piece. After a kill it
// is called again, and does not fetch again what is there. If there is a newer image by then, it fetches that one. If a
// holder saves meanwhile, the result may be a newer image than the one that was the newest at first. When Last is in
// its place, Restore only removes what it has made beside. The caller has the folder for itself.
func Restore(ctx context.Context, p Place, t Target) (Saved, error) {
	r := &restoring{place: p, Target: t, fs: t.disk(), work: filepath.Join(t.Dir, workName)}
	v, err := r.restore(ctx)
	if err != nil {
		err = fmt.Errorf("restore the state in %s: %w", t.Dir, err)
	}
	return v, err
}

// A restoring is a Restore that is under way.
type restoring struct {
	place Place
	Target
	fs   disk.FS
	work string

	mu    sync.Mutex // guards moved
	moved int64      // bytes that were read
}

func (r *restoring) restore(ctx context.Context) (v Saved, err error) {
	ready := filepath.Join(r.work, readyName)
	for _, name := range []string{filepath.Join(r.Dir, doneName), ready} {
		b, err := disk.ReadFile(r.fs, name, 2*maxNote)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, &v)
		}
		if err != nil {
			return v, fmt.Errorf("%s: %w", name, err)
		}
		if name == ready {
			old, err := r.outdated(ctx)
			if err != nil {
				return v, err
			}
			if old {
				v = Saved{}
				break
			}
		}
		return v, r.finish(ctx, name == ready)
	}
	var l *list
	for n := 1; ; n++ {
		if l, err = r.place.newest(ctx); err == nil {
			err = r.fetch(ctx, l)
		}
		if n < tries && errors.Is(err, object.ErrNotFound) {
			if now, nerr := r.place.newest(ctx); nerr == nil && now.Number != l.Number {
				continue // a holder has removed what the image needs
			}
		}
		if errors.Is(err, object.ErrNotFound) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err != nil {
			return v, err
		}
		break
	}
	v = l.saved()
	v.Moved = r.moved
	b, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	if err := disk.WriteFile(r.fs, ready, b); err != nil {
		return v, err
	}
	return v, r.finish(ctx, true)
}

// outdated reports whether the image whose files are being moved is not the newest any more: another process has taken
// over since the kill, and has saved. Then it takes the files away again. If Last is in its place, there is a crawl,
// and nothing changes.
func (r *restoring) outdated(ctx context.Context) (bool, error) {
	if there, err := r.lastMoved(); there || err != nil {
		return false, err
	}
	text, err := disk.ReadFile(r.fs, filepath.Join(r.work, listName), maxList)
	if err != nil {
		return false, err
	}
	now, err := r.place.newest(ctx)
	if err != nil {
		return false, err
	}
	if same, err := now.encode(); err != nil || bytes.Equal(same, text) {
		return false, err
	}
	l, err := parseList(text)
	if err != nil {
		return false, err
	}
	for _, f := range l.Files {
		if err := r.fs.Remove(r.path(f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	for dir := range l.dirs() {
		if err := r.fs.SyncDir(r.path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	// The mark goes before the list: it would ask for the list after a kill.
	return true, errors.Join(r.fs.Remove(filepath.Join(r.work, readyName)), r.fs.SyncDir(r.work))
}

// lastMoved reports whether Last is in its place.
func (r *restoring) lastMoved() (bool, error) {
	if r.Last == "" {
		return false, nil
	}
	_, err := r.fs.Stat(r.path(r.Last))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// fetch makes the files of an image in the work folder, durably.
func (r *restoring) fetch(ctx context.Context, l *list) error {
	text, err := l.encode()
	if err != nil {
		return err
	}
	name := filepath.Join(r.work, listName)
	old, err := disk.ReadFile(r.fs, name, maxList)
	again := err == nil && bytes.Equal(old, text)
	switch {
	case again:
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, disk.ErrTooLarge):
		err := r.fs.RemoveAll(r.work)
		if err == nil {
			err = r.fs.MkdirAll(r.work, 0o755)
		}
		if err == nil {
			err = errors.Join(r.fs.SyncDir(r.Dir), r.fs.SyncDir(filepath.Dir(filepath.Clean(r.Dir))))
		}
		if err != nil {
			return err
		}
	default:
		return err
	}
	for _, f := range l.Files {
		if _, err := r.fs.Stat(r.path(f.Name)); err == nil {
			return fmt.Errorf("%s: %w", r.path(f.Name), ErrOccupied)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !again {
		if err := disk.WriteFile(r.fs, name, text); err != nil {
			return err
		}
	}
	if err := r.make(l, again); err != nil {
		return err
	}
	if err := r.packs(ctx, l, again); err != nil {
		return err
	}
	for _, f := range l.Files {
		if err := r.sync(f); err != nil {
			return err
		}
	}
	for dir := range l.dirs() {
		if err := r.fs.SyncDir(r.part(dir)); err != nil {
			return err
		}
	}
	return r.fs.SyncDir(r.work)
}

// path returns the name of a file in the folder of the crawl, and part that in the work folder.
func (r *restoring) path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

func (r *restoring) part(name string) string {
	return filepath.Join(r.work, filesName, filepath.FromSlash(name))
}

// dirs returns the folders of the files, "." among them.
func (l *list) dirs() map[string]bool {
	dirs := map[string]bool{".": true}
	for _, f := range l.Files {
		for dir := path.Dir(f.Name); !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

// make makes the folders and empty files.
func (r *restoring) make(l *list, again bool) error {
	for dir := range l.dirs() {
		if err := r.fs.MkdirAll(r.part(dir), 0o755); err != nil {
			return err
		}
	}
	for _, f := range l.Files {
		flag := os.O_WRONLY | os.O_CREATE
		if !again {
			flag |= os.O_EXCL
		}
		file, err := r.fs.OpenFile(r.part(f.Name), flag, 0o644)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// A use is a place that a piece belongs to.
type use struct {
	piece
	name string
	off  int64
}

// packs reads the packs and writes their pieces.
func (r *restoring) packs(ctx context.Context, l *list, again bool) error {
	uses := map[*pack][]use{}
	for _, f := range l.Files {
		var off int64
		for _, p := range f.pieces {
			uses[p.pack] = append(uses[p.pack], use{p, f.Name, off})
			off += p.bytes
		}
	}
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*maxPiece), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderConcurrency(inFlight))
	if err != nil {
		return err
	}
	defer unzip.Close()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for _, p := range l.packs {
		g.Go(func() error {
			if gctx.Err() != nil {
				return gctx.Err()
			}
			return r.pack(gctx, p, uses[p], unzip, again)
		})
	}
	return g.Wait()
}

// pack reads what the image needs of a pack.
func (r *restoring) pack(ctx context.Context, p *pack, uses []use, unzip *zstd.Decoder, again bool) error {
	room := make([]byte, maxPiece)
	if again {
		var err error
		uses = slices.DeleteFunc(uses, func(u use) bool {
			has, herr := r.has(u, room[:u.bytes])
			err = errors.Join(err, herr)
			return has
		})
		if err != nil {
			return err
		}
	}
	if len(uses) == 0 {
		return nil
	}
	slices.SortFunc(uses, func(a, b use) int { return int(a.at - b.at) })
	first, end := uses[0].at, int64(0)
	for _, u := range uses {
		end = max(end, u.at+u.stored)
	}
	key := r.place.Prefix + p.key
	b, err := r.place.Store.Read(ctx, key, first, end-first)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.moved += int64(len(b))
	r.mu.Unlock()
	damaged := func(u use) error {
		return fmt.Errorf("%s: %w (%s at byte %d)", r.place.Store.Location(key), ErrDamaged, u.name, u.off)
	}
	var raw []byte
	for i, u := range uses {
		if u.at-first+u.stored > int64(len(b)) {
			return damaged(u)
		}
		if i == 0 || u.piece != uses[i-1].piece {
			if raw = b[u.at-first:][:u.stored]; u.zstd {
				if raw, err = unzip.DecodeAll(raw, room[:0:u.bytes]); err != nil {
					return fmt.Errorf("%w: %w", damaged(u), err)
				}
			}
			if int64(len(raw)) != u.bytes || sum(raw) != u.sum {
				return damaged(u)
			}
		}
		if err := r.write(u, raw); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a piece is in its place already.
func (r *restoring) has(u use, b []byte) (bool, error) {
	f, err := r.fs.OpenFile(r.part(u.name), os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	n, err := f.ReadAt(b, u.off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n == len(b) && sum(b) == u.sum, err
}

// write writes a piece to its place.
func (r *restoring) write(u use, b []byte) error {
	f, err := r.fs.OpenFile(r.part(u.name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Seek(u.off, io.SeekStart)
	if err == nil {
		_, err = f.Write(b)
	}
	return errors.Join(err, f.Close())
}

// sync makes a file durable. A kill may have left more of it than belongs to it.
func (r *restoring) sync(f *listedFile) error {
	file, err := r.fs.OpenFile(r.part(f.Name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	i, err := file.Stat()
	if err == nil && i.Size() != f.Bytes {
		err = fmt.Errorf("%s has %d bytes, want %d", r.part(f.Name), i.Size(), f.Bytes)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// finish moves the files to the folder of the crawl, and removes what Restore has made. All steps can be done again.
func (r *restoring) finish(ctx context.Context, move bool) error {
	done := filepath.Join(r.Dir, doneName)
	if move {
		text, err := disk.ReadFile(r.fs, filepath.Join(r.work, listName), maxList)
		if err != nil {
			return err
		}
		l, err := parseList(text)
		if err != nil {
			return err
		}
		if err := r.move(ctx, l); err != nil {
			return err
		}
		if err := r.fs.Rename(filepath.Join(r.work, readyName), done); err != nil {
			return err
		}
		if err := errors.Join(r.fs.SyncDir(r.Dir), r.fs.SyncDir(r.work)); err != nil {
			return err
		}
	}
	if err := r.fs.RemoveAll(r.work); err != nil {
		return err
	}
	if err := r.fs.SyncDir(r.Dir); err != nil {
		return err
	}
	if err := r.fs.Remove(done); err != nil {
		return err
	}
	return r.fs.SyncDir(r.Dir)
}

// move moves the files, the last one in the end.
func (r *restoring) move(ctx context.Context, l *list) error {
	dirs := l.dirs()
	for dir := range dirs {
		if err := r.fs.MkdirAll(r.path(dir), 0o755); err != nil {
			return err
		}
	}
	sync := func() error {
		for dir := range dirs {
			if err := r.fs.SyncDir(r.path(dir)); err != nil {
				return err
			}
		}
		return nil
	}
	// A folder that is lost with the power takes the files with it that were moved there.
	if err := sync(); err != nil {
		return err
	}
	for _, last := range []bool{false, true} {
		if last && r.Rest != nil {
			if there, err := r.lastMoved(); err != nil {
				return err
			} else if !there {
				if err := r.Rest.Bring(ctx); err != nil {
					return err
				}
			}
		}
		for _, f := range l.Files {
			if (f.Name == r.Last) != last {
				continue
			}
			err := r.fs.Rename(r.part(f.Name), r.path(f.Name))
			if errors.Is(err, fs.ErrNotExist) { // moved before a kill
				_, err = r.fs.Stat(r.path(f.Name))
			}
			if err != nil {
				return err
			}
		}
		if err := sync(); err != nil {
			return err
		}
	}
	return nil
}
