package folder_test

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/object/folder"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// able is what a folder can do.
var able = object.Abilities{IfAbsent: true, IfAbsentParts: true, IfTag: true, Checksums: true, Attests: true}

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (disk.FS, string){
		"machine": func(t *testing.T) (disk.FS, string) { return disk.OS, t.TempDir() },
		"memory":  func(*testing.T) (disk.FS, string) { return testdisk.NewMem(), "/" },
	} {
		t.Run(name, func(t *testing.T) {
			teststore.Conform(t, func(t *testing.T) *object.Store {
				fsys, dir := open(t)
				b := must.Get(folder.Open(fsys, dir))(t)
				return object.New(b, b.Base(), teststore.Config)
			}, able)
		})
	}
}
