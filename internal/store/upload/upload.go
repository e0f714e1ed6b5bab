// Package upload answers: when is a finished file of this machine safe in an object store?
//
//	Add -> queue -> object.Store.Put (checksums, parts, looked at afterwards) -> Stored -> the owner may remove it
//
// The owner of the files keeps a journal: an Uploader has no state on disk. After a kill the owner adds the files again
// that its journal does not name as stored. A file that is in the store already, with the same checksum, is not sent
// again. An upload that a kill has cut is aborted by Clean, and begun anew.
//
// # Invariants
//
//   - Stored is called only after the store has said that it has the file: its size and checksum.
//   - Uploader never removes or changes a file.
//   - No more than Parallel files are open at a time.
package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// A File is finished: nobody writes to it any more.
type File struct {
	Name string // on this machine
	Key  string // in the store
}

// A Store takes objects. *object.Store is one.
type Store interface {
	Put(ctx context.Context, key string, c object.Content, when object.Condition) (object.Info, error)
	Abort(ctx context.Context, prefix string, before time.Time) (n int, err error)
}

// An Owner has the files and the journal. Several goroutines may call it at once.
type Owner interface {
	// Stored says that the store has a file. The owner writes it into its journal, durably, and then may remove the
	// file. An error ends the Uploader.
	Stored(f File, i object.Info) error
	// Failed says that a file cannot be stored as it is: there is another object of its name, or the store refuses it.
	// It stays. An error ends the Uploader.
	Failed(f File, why error) error
}

// Config tunes an Uploader.
type Config struct {
	// Parallel is how many files are sent at a time. Zero means 2. Each of them sends several parts at a time.
	Parallel int
	// Queue is how many files may wait. Zero means 1024. Add blocks while the queue is full.
	Queue int
}

// An Uploader sends files to a store. Make one with New.
type Uploader struct {
	fs       disk.FS
	store    Store
	owner    Owner
	parallel int
	queue    chan File
}

// New returns an Uploader.
func New(fsys disk.FS, store Store, owner Owner, c Config) *Uploader {
	if c.Parallel <= 0 {
		c.Parallel = 2
	}
	if c.Queue <= 0 {
		c.Queue = 1024
	}
	return &Uploader{fsys, store, owner, c.Parallel, make(chan File, c.Queue)}
}

// Clean aborts the uploads below a prefix that began before a time, such as the start of this process: a process that
// was killed has left them. It returns how many there were. Only uploads of this owner may be below the prefix.
func (u *Uploader) Clean(ctx context.Context, prefix string, before time.Time) (int, error) {
	return u.store.Abort(ctx, prefix, before)
}

// Add gives a file to Run. It blocks while the queue is full. One goroutine calls Add and Close.
func (u *Uploader) Add(ctx context.Context, f File) error {
	select {
	case u.queue <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close says that no file will be added. Run then ends when all are sent.
func (u *Uploader) Close() { close(u.queue) }

// Run sends the files until Close was called and none is left, the context ends, or an error of this machine or of the
// owner ends it. While the store is away it waits.
func (u *Uploader) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range u.parallel {
		g.Go(func() error {
			for {
				select {
				case f, ok := <-u.queue:
					if !ok {
						return nil
					}
					if err := u.send(ctx, f); err != nil {
						return err
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
	return g.Wait()
}

// send stores a file, and tells the owner.
func (u *Uploader) send(ctx context.Context, f File) error {
	file, err := u.fs.OpenFile(f.Name, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	defer file.Close()
	i, err := file.Stat()
	if err != nil {
		return fmt.Errorf("upload %s: %w", f.Name, err)
	}
	info, err := u.store.Put(ctx, f.Key, io.NewSectionReader(file, 0, i.Size()), object.Condition{IfAbsent: true})
	var exists *object.ExistsError
	if errors.As(err, &exists) && exists.Same { // sent before a kill
		info, err = exists.There, nil
	}
	switch {
	case err == nil:
		return u.owner.Stored(f, info)
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), err)
	}
	return u.owner.Failed(f, fmt.Errorf("upload %s: %w", f.Name, err))
}
