package image_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

const listKey, packKey = "images/000000001-0123456789abcdef-000000001.json",
	"packs/000000001-0123456789abcdef-000000001-000001.pack"

// foreign returns a store that somebody else has filled: with a pointer to a list, and a pack.
func foreign(t *testing.T, list, pack string) image.Place {
	p := place(t, teststore.NewSim(1, teststore.Traits{}))
	put := func(key, text string) {
		must.Get(p.Store.Put(t.Context(), p.Prefix+key, strings.NewReader(text), object.Condition{Mutable: true}))(t)
	}
	sum := sha256.Sum256([]byte(list))
	put(listKey, list)
	put(packKey, pack)
	put("current.json", fmt.Sprintf(`{"generation":1,"claim":"0123456789abcdef","run":"0123456789abcdef",`+
		`"format":"orbweaver-image-1","holder":"","began":"2026-11-30T00:00:00Z","ends_ms":1,"settled":true,`+
		`"released":true,"image":{"number":1,"key":%q,"bytes":%d,"sha256":%q,"taken":"2026-11-30T00:00:00Z"}}`+"\n",
		listKey, len(list), hex.EncodeToString(sum[:])))
	return p
}

// listOf returns a list with these packs and files.
func listOf(packs, files string) string {
	return `{"format":"orbweaver-image-1","generation":1,"number":1,"taken":"2026-11-30T00:00:00Z","packs":[` + packs +
		`],"files":[` + files + `]}`
}

// fileOf returns a file that has a text, which is at the beginning of the pack.
func fileOf(name, text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf(`{"name":%s,"bytes":%d,"pieces":[{"bytes":%[2]d,"sha256":"%x","pack":0,"at":0,"stored":%[2]d}]}`,
		quoted(name), len(text), sum)
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// TestHostile restores images that somebody has made to harm: each is refused, and leaves no file.
func TestHostile(t *testing.T) {
	const hello = "hello"
	pack := fmt.Sprintf(`{"key":%q,"bytes":1000}`, packKey)
	zip := must.Get(zstd.NewWriter(nil))(t)
	bomb := string(zip.EncodeAll(make([]byte, 512<<20), nil))
	sum := sha256.Sum256([]byte(hello))
	piece := func(more string) string {
		return fmt.Sprintf(`{"name":"x","bytes":5,"pieces":[{"bytes":5,"sha256":"%x",%s}]}`, sum, more)
	}
	for _, c := range []struct{ what, list, pack, says string }{
		{"not JSON", "<html>", hello, "its list"},
		{"more after the end", listOf(pack, fileOf("x", hello)) + "{}", hello, "more after its end"},
		{"another format", strings.Replace(listOf("", ""), "image-1", "image-9", 1), hello, "the format"},
		{"the folder above", listOf(pack, fileOf("../x", hello)), hello, "without a name"},
		{"an absolute path", listOf(pack, fileOf("/etc/passwd", hello)), hello, "without a name"},
		{"a backslash", listOf(pack, fileOf(`a\..\..\x`, hello)), hello, "without a name"},
		{"a drive", listOf(pack, fileOf(`C:x`, hello)), hello, "without a name"},
		{"the folder of Restore", listOf(pack, fileOf("Restoring/ready.json", hello)), hello, "without a name"},
		{"the mark of Restore", listOf(pack, fileOf("restored.json", hello)), hello, "without a name"},
		{"no name", listOf(pack, fileOf("", hello)), hello, "without a name"},
		{"null", listOf(pack, "null"), hello, "without a name"},
		{"twice", listOf(pack, fileOf("x", hello)+","+fileOf("x", hello)), hello, "twice"},
		{"file and folder", listOf(pack, fileOf("x", hello)+","+fileOf("x/y", hello)), hello, "and as a folder"},
		{"folder and file", listOf(pack, fileOf("x/y", hello)+","+fileOf("x", hello)), hello, "twice"},
		{"a pack elsewhere", listOf(`{"key":"../other","bytes":1000}`, fileOf("x", hello)), hello, "the pack"},
		{"a large pack", listOf(fmt.Sprintf(`{"key":%q,"bytes":1000000000000}`, packKey), ""), hello, "the pack"},
		{"no such pack", listOf(pack, piece(`"pack":7,"at":0,"stored":5`)), hello, "in pack 7"},
		{"after the pack", listOf(pack, piece(`"pack":0,"at":996,"stored":5`)), hello, "wrong piece"},
		{"before the pack", listOf(pack, piece(`"pack":0,"at":-1,"stored":5`)), hello, "wrong piece"},
		{"overflow", listOf(pack, piece(`"pack":0,"at":9223372036854775807,"stored":5`)), hello, "wrong piece"},
		{"too few pieces", listOf(pack, `{"name":"x","bytes":9000000000000000000,"pieces":[]}`), hello, "have 0"},
		{"negative", listOf(pack, `{"name":"x","bytes":-1,"pieces":[]}`), hello, "-1 bytes"},
		{"a digest", listOf(pack, strings.Replace(fileOf("x", hello), "2cf2", "ffff", 1)), hello, "x at byte 0"},
		{"a short pack", listOf(pack, fileOf("x", hello)), "hell", "x at byte 0"},
		{"no frame", listOf(pack, piece(`"pack":0,"at":0,"stored":5,"zstd":true`)), hello, "x at byte 0"},
		{"a bomb", listOf(fmt.Sprintf(`{"key":%q,"bytes":%d}`, packKey, len(bomb)),
			piece(fmt.Sprintf(`"pack":0,"at":0,"stored":%d,"zstd":true`, len(bomb)))), bomb, "x at byte 0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			m := testdisk.NewMem()
			to := image.Target{FS: m, Dir: "deep/r"}
			_, err := image.Restore(t.Context(), foreign(t, c.list, c.pack), to)
			if !errors.Is(err, image.ErrDamaged) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%v; want one that says %q", err, c.says)
			}
			for name := range content(t, m, ".") {
				if !strings.HasPrefix(name, "deep/r/restoring/") {
					t.Errorf("it has written %s", name)
				}
			}
		})
	}
	m := testdisk.NewMem()
	must.Get(image.Restore(t.Context(), foreign(t, listOf(pack, fileOf("x", hello)), hello),
		image.Target{FS: m, Dir: "r"}))(t)
	same(t, m, "r", map[string][]byte{"x": []byte(hello)})
}

// TestOccupied: Restore replaces no file.
func TestOccupied(t *testing.T) {
	p := foreign(t, listOf(fmt.Sprintf(`{"key":%q,"bytes":1000}`, packKey), fileOf("x", "hello")), "hello")
	w := newWorld(t, 1)
	w.write("x", []byte("mine"))
	_, err := image.Restore(t.Context(), p, image.Target{FS: w.disk, Dir: "c"})
	if !errors.Is(err, image.ErrOccupied) {
		t.Error(err)
	}
	if got := content(t, w.disk, "c")["x"]; string(got) != "mine" {
		t.Errorf("it has replaced the file by %q", got)
	}
}

// TestDamagedPointer: a pointer that somebody has damaged is an error for readers. The next claim takes the newest
// image from the list of images.
func TestDamagedPointer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := teststore.NewSim(1, teststore.Traits{})
		p := place(t, sim)
		w := newWorld(t, 1)
		s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		for range 3 {
			w.write("x", w.bytes(100))
			must.Get(w.save(s))(t)
		}
		must.Get(p.Store.Put(t.Context(), "state/current.json", strings.NewReader(`{"generation":1,"cl`),
			object.Condition{Mutable: true}))(t)
		if _, err := image.Look(t.Context(), p); !errors.Is(err, image.ErrDamaged) {
			t.Errorf("look at it: %v", err)
		}
		s = must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		if v, ok := s.Image(); !ok || v.Number != 3 || s.Waits() == 0 {
			t.Errorf("image %+v (%v), waits for %v", v, ok, s.Waits())
		}
		w.restore(p)
	})
}

// TestDamagedList: a process that has the folder goes on if the newest image is damaged, and replaces it. Another one
// does not.
func TestDamagedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := teststore.NewSim(1, teststore.Traits{})
		p := place(t, sim)
		w := newWorld(t, 1)
		s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		for range 2 {
			w.write("x", w.bytes(100))
			must.Get(w.save(s))(t)
		}
		for _, key := range sim.Keys() {
			if strings.HasPrefix(key, "state/images/") {
				must.Get(p.Store.Put(t.Context(), key, strings.NewReader("{}"), object.Condition{Mutable: true}))(t)
			}
		}
		if _, err := image.Look(t.Context(), p); !errors.Is(err, image.ErrDamaged) {
			t.Errorf("look at it: %v", err)
		}
		s = must.Get(image.Join(t.Context(), p, image.Config{}, s.Hold().Run()))(t)
		w.took(3)
		if v := must.Get(w.save(s))(t); v.Number != 3 {
			t.Errorf("the next image has number %d", v.Number)
		}
		w.restore(p)
		for _, key := range sim.Keys() {
			if strings.HasPrefix(key, "state/images/") {
				must.Get(p.Store.Put(t.Context(), key, strings.NewReader("{}"), object.Condition{Mutable: true}))(t)
			}
		}
		if _, err := image.Claim(t.Context(), p, image.Config{}); !errors.Is(err, image.ErrDamaged) {
			t.Errorf("claim: %v", err)
		}
	})
}

// FuzzList reads lists that anybody may have written.
func FuzzList(f *testing.F) {
	pack := fmt.Sprintf(`{"key":%q,"bytes":1000}`, packKey)
	f.Add([]byte(listOf(pack, fileOf("a/b", "hello")+","+fileOf("c", "hello"))))
	f.Add([]byte(listOf(pack, fileOf("../b", "hello"))))
	f.Add([]byte(`{"format":"orbweaver-image-1","files":[null]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := image.ReadList(b)
		if err != nil {
			if !errors.Is(err, image.ErrDamaged) {
				t.Error(err)
			}
			return
		}
		again, err := image.ReadList(text)
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("%v: %q is read as %q", err, text, again)
		}
	})
}

// FuzzPointer reads pointers that anybody may have written.
func FuzzPointer(f *testing.F) {
	f.Add([]byte(`{"generation":1,"claim":"0123456789abcdef","run":"0123456789abcdef",` +
		`"format":"orbweaver-image-1"}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ends, err := image.ReadPointer(b); err == nil && (ends < 0 || ends > image.Longest) ||
			err != nil && !errors.Is(err, image.ErrDamaged) {
			t.Error(ends, err)
		}
	})
}
