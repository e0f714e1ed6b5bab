package tables

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

const someLog = "2026-05-04T03:02:01.005Z 200 12 http://www.shop.co.uk/ - - text/html #001 " +
	"20260504030201005+9 - - -\n" +
	"2026-05-04T03:02:01.005Z -2 - http://b.example/ - - - #001 - - - error:connect\n"

func logOf(t testing.TB, mem disk.FS, text string) {
	t.Helper()
	must.Do(t, mem.MkdirAll("/c/logs", 0o777))
	must.Do(t, disk.WriteFile(mem, "/c/logs/crawl.log", []byte(text)))
}

// After a kill while old tables are replaced, the next call leaves all of the old ones or all of the new ones.
func TestReplacedAfterKill(t *testing.T) {
	base := newMem()
	archive(t, base, "/c", every()...)
	logOf(t, base, someLog)
	write(t, config(base, "/c"))
	old := files(t, base, "/out")
	must.Do(t, base.RemoveAll("/c"))
	archive(t, base, "/c", every()[:4]...)
	logOf(t, base, someLog[:strings.IndexByte(someLog, 10)+1]) // without a failure
	cfg := config(base.Clone(), "/c")
	cfg.Overwrite = true
	counted := testdisk.NewFaulty(cfg.FS, nil)
	cfg.FS = counted
	write(t, cfg)
	calls, _ := counted.Calls()
	fresh := files(t, cfg.FS, "/out")
	if reflect.DeepEqual(old, fresh) {
		t.Fatal("the new tables are those that were there")
	}
	ended := map[string]int{}
	for n := int64(1); n <= calls; n++ {
		mem := base.Clone()
		cfg.FS = testdisk.NewFaulty(mem, testdisk.FailFrom(n, errKilled))
		_, killed := Write(context.Background(), cfg)
		next := config(mem, "/c")
		if n%2 == 0 {
			next.Crawl = "another"
		}
		_, err := Write(context.Background(), next)
		left := files(t, mem, "/out")
		if n%2 == 0 {
			must.Do(t, err)
			for _, table := range tablePaths() {
				must.Do(t, mem.RemoveAll("/out/"+partition(table, "another")))
			}
			left = files(t, mem, "/out")
		}
		switch {
		case reflect.DeepEqual(left, fresh) && (err == nil || killed == nil && errors.Is(err, ErrThere)):
			ended["new"]++
		case reflect.DeepEqual(left, old) && (n%2 == 0 || errors.Is(err, ErrThere)):
			ended["old"]++
		default:
			t.Fatalf("killed at operation %d (%v), then %v: the tables are mixed", n, killed, err)
		}
	}
	if ended["new"] < 10 || ended["old"] < 10 {
		t.Errorf("after the next call the tables are %v", ended)
	}
}

// If the disk fails once while old tables are replaced, the next call completes the new ones.
func TestReplacedAfterError(t *testing.T) {
	base := newMem()
	archive(t, base, "/c", every()...)
	logOf(t, base, someLog)
	write(t, config(base, "/c"))
	cfg := config(base, "/c")
	cfg.Overwrite = true
	counted := testdisk.NewFaulty(base.Clone(), nil)
	cfg.FS = counted
	write(t, cfg)
	want := files(t, cfg.FS, "/out")
	calls, _ := counted.Calls()
	for n := int64(1); n <= calls; n++ {
		mem := base.Clone()
		cfg.FS = testdisk.NewFaulty(mem, testdisk.FailAt(n, errKilled))
		_, failed := Write(context.Background(), cfg)
		next := config(mem, "/c")
		if _, err := Write(context.Background(), next); err != nil && !errors.Is(err, ErrThere) {
			t.Fatalf("operation %d failed (%v), then: %v", n, failed, err)
		}
		if !reflect.DeepEqual(files(t, mem, "/out"), want) {
			t.Fatalf("after operation %d has failed (%v), the tables differ", n, failed)
		}
	}
}

// A crawl that got no response has tables of its log and its failures.
func TestFailuresOnly(t *testing.T) {
	mem := newMem()
	archive(t, mem, "/c")
	logOf(t, mem, someLog[strings.IndexByte(someLog, 10)+1:])
	res := must.Get(Write(context.Background(), config(mem, "/c")))(t)
	for _, name := range []string{"log", "failures"} {
		if _, rows := table(t, mem, name); len(rows) != 1 {
			t.Errorf("%s has the rows %q", name, rows)
		}
	}
	if _, err := mem.Stat("/out/cc-index"); err == nil || res.Tables[0].Rows != 0 {
		t.Errorf("there is an index, of %d rows", res.Tables[0].Rows)
	}
	if _, err := Write(context.Background(), config(mem, "/c")); !errors.Is(err, ErrThere) {
		t.Errorf("a second time: %v, want ErrThere", err)
	}
	cfg := config(mem, "/c")
	cfg.Overwrite = true
	must.Get(Write(context.Background(), cfg))(t)
}

// A plan that leads elsewhere is refused, and changes nothing.
func TestHostilePlan(t *testing.T) {
	for _, plan := range []string{"../../c\nlog\n", "\n", "a/b\nlog", "..\nlog", string(make([]byte, 2*maxPlan))} {
		mem := newMem()
		archive(t, mem, "/c", every()...)
		must.Do(t, mem.MkdirAll("/out", 0o777))
		work := must.Get(disk.OpenWork(mem, "/out/unfinished"))(t)
		must.Do(t, disk.WriteFile(mem, "/out/unfinished/"+planName, []byte(plan)))
		must.Do(t, work.Leave())
		if _, err := Write(context.Background(), config(mem, "/c")); err == nil {
			t.Errorf("plan %.20q: no error", plan)
		}
		if _, err := mem.Stat("/c/archive"); err != nil {
			t.Errorf("plan %.20q: %v", plan, err)
		}
	}
}
