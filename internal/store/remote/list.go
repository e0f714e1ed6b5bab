package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

const (
	maxEntries = 200_000 // of a folder
	maxPages   = 2_000   // of the lists for one folder
	maxKnown   = 200_000 // objects of lists that are kept
)

// A span is what the pages of a list have said: these objects, and no others, have keys from low on, below high.
type span struct {
	low, high string
	objects   []object.Info // in the order of their keys
}

// find returns where the first object is whose key is not below key.
func (s *span) find(key string) (i int, there bool) {
	return slices.BinarySearchFunc(s.objects, key, func(o object.Info, key string) int {
		return strings.Compare(o.Key, key)
	})
}

// last is above all valid keys that begin with a prefix, if it is added to the prefix. It may be sent to a store.
const last = "\U0010FFFF"

// endOf is above all keys that begin with prefix. It is not sent to a store.
func endOf(prefix string) string { return prefix + "\xff" }

// covering returns the span that knows a key, or nil. The caller holds f.mu.
func (f *FS) covering(key string) *span {
	for _, s := range slices.Backward(f.spans) {
		if s.low <= key && key < s.high {
			return s
		}
	}
	return nil
}

// page asks for a page of the list of a prefix, from the key low on. low is the prefix, or where a span ends.
func (f *FS) page(prefix, low string) (s *span, err error) {
	var p object.Page
	after := ""
	if up, ends := strings.CutSuffix(low, "\xff"); ends {
		after = up + last
	} else if low != prefix {
		after = strings.TrimSuffix(low, "\x00")
	}
	f.mu.Lock()
	f.made.Lists++
	f.mu.Unlock()
	err = f.ask(func(ctx context.Context) (err error) {
		p, err = f.store.List(ctx, prefix, after, object.MaxList)
		return err
	})
	if err != nil {
		return nil, err
	}
	s = &span{low, endOf(prefix), p.Objects}
	if p.Next != "" {
		s.high = p.Next + "\x00"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(s)
	return s, nil
}

// keep keeps a span. The caller holds f.mu.
func (f *FS) keep(s *span) {
	f.spans = append(f.spans, s)
	f.known += len(s.objects)
	for f.known > maxKnown && len(f.spans) > 1 || len(f.spans) > maxPages {
		f.known -= len(f.spans[0].objects)
		f.spans = slices.Delete(f.spans, 0, 1)
	}
}

// forget forgets what lists have said of a key.
func (f *FS) forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans = slices.DeleteFunc(f.spans, func(s *span) bool {
		gone := s.low <= key && key < s.high
		if gone {
			f.known -= len(s.objects)
		}
		return gone
	})
}

// told returns what is known of a key.
func (f *FS) told(key string) *span {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.covering(key)
}

// lookUp finds an object, or a folder. If the store does not permit lists, it finds objects only.
func (f *FS) lookUp(key string) (i object.Info, folder bool, err error) {
	s := f.told(key)
	prefix := strings.TrimPrefix(path.Dir(key)+"/", "./")
	if s == nil && f.told(prefix) == nil { // the folder's other files are wanted next
		if s, err = f.page(prefix, prefix); s != nil && key >= s.high {
			s = nil
		}
	}
	if s == nil && err == nil {
		s, err = f.page(key, key)
	}
	if errors.Is(err, object.ErrDenied) {
		i, err := f.look(key)
		return i, false, err
	} else if err != nil {
		return i, false, err
	}
	if at, there := s.find(key); there {
		return s.objects[at], false, nil
	}
	if s, err = f.at(key+"/", key+"/"); err != nil {
		return i, false, err
	}
	for pages := 0; ; pages++ {
		at, _ := s.find(key + "/")
		if at < len(s.objects) && strings.HasPrefix(s.objects[at].Key, key+"/") {
			return i, true, nil
		}
		if s.high >= endOf(key+"/") || at < len(s.objects) {
			return i, false, fs.ErrNotExist
		}
		if pages == maxPages {
			return i, false, ErrTooMany
		}
		if s, err = f.at(key+"/", s.high); err != nil {
			return i, false, err
		}
	}
}

// look asks for one object.
func (f *FS) look(key string) (i object.Info, err error) {
	f.mu.Lock()
	f.made.Stats++
	f.mu.Unlock()
	err = f.ask(func(ctx context.Context) (err error) {
		i, err = f.store.Stat(ctx, key)
		return err
	})
	return i, err
}

// at returns what is known of the keys from low on. It asks for a page of the list of prefix if nothing is known.
func (f *FS) at(prefix, low string) (*span, error) {
	if s := f.told(low); s != nil {
		return s, nil
	}
	return f.page(prefix, low)
}

// ReadDir lists a folder, sorted by name. It passes over what is below the folder's folders: it asks for one more page
// for each of them that does not end within a page.
func (f *FS) ReadDir(name string) (list []fs.DirEntry, err error) {
	key, ok := f.key(name)
	if !ok {
		return nil, f.fault("open", name, fs.ErrNotExist)
	}
	prefix := key
	if key != "" {
		prefix += "/"
	}
	if list, err = f.folder(prefix); err != nil {
		return nil, f.fault("open", name, err)
	}
	if len(list) == 0 && key != "" {
		err := fs.ErrNotExist
		if s := f.told(key); s != nil {
			if _, there := s.find(key); there {
				err = syscall.ENOTDIR
			}
		}
		return nil, f.fault("open", name, err)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (f *FS) folder(prefix string) (list []fs.DirEntry, err error) {
	places := map[string]int{} // of the names in list
	low := prefix
	for pages := 0; low < endOf(prefix); pages++ {
		if pages == maxPages {
			return nil, fmt.Errorf("%w: its list has more than %d pages", ErrTooMany, maxPages)
		}
		s, err := f.at(prefix, low)
		if err != nil {
			return nil, err
		}
		for low < s.high && low < endOf(prefix) {
			at, _ := s.find(low)
			if at == len(s.objects) || !strings.HasPrefix(s.objects[at].Key, prefix) {
				low = s.high
				break
			}
			o := s.objects[at]
			name, _, deep := strings.Cut(o.Key[len(prefix):], "/")
			e := entry{name, o, deep}
			low = o.Key + "\x00"
			if deep {
				e.info = object.Info{}
				low = max(low, prefix+name+"/"+last+"\x00")
			}
			if i, there := places[name]; !there {
				places[name] = len(list)
				list = append(list, e)
			} else if deep {
				list[i] = e // also an object: its folder has more
			}
			if len(list) > maxEntries {
				return nil, fmt.Errorf("%w: more than %d", ErrTooMany, maxEntries)
			}
		}
	}
	return list, nil
}
