package disk_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// relieved counts the calls of a disk.Spare.
type relieved int

func (n *relieved) Relieve() { *n++ }

// TestPatient checks that a passing shortage of descriptors only costs time, and that a lasting one is an error.
func TestPatient(t *testing.T) {
	for _, c := range []struct {
		name string
		lack error
		for_ time.Duration
		want error
	}{
		{"passes", syscall.EMFILE, 10 * time.Second, nil},
		{"of the machine", syscall.ENFILE, 10 * time.Second, nil},
		{"lasts", syscall.EMFILE, time.Hour, syscall.EMFILE},
		{"another error", syscall.EACCES, time.Second, syscall.EACCES},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var spare relieved
				began := time.Now()
				faulty := testdisk.NewFaulty(testdisk.NewMem(), func(testdisk.Call) testdisk.Fault {
					if time.Since(began) < c.for_ {
						return testdisk.Fault{Err: c.lack}
					}
					return testdisk.Fault{}
				})
				fsys := disk.Patient(faulty, &spare)
				f, err := fsys.OpenFile("a", os.O_CREATE|os.O_RDWR, 0o644)
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if short := disk.IsShortage(c.lack); short != (spare > 0) {
					t.Errorf("Relieve was called %d times for %v", spare, c.lack)
				}
				switch took := time.Since(began); {
				case err == nil:
					f.Close()
				case disk.IsShortage(err) && (took < 30*time.Second || took > 31*time.Second):
					t.Errorf("gave up after %s; want about 30s", took)
				case !disk.IsShortage(err) && took > 0:
					t.Errorf("waited %s after an error that is not a shortage", took)
				}
			})
		})
	}
}
