package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// debian writes the file that dpkg installs on a processor. It is an ar archive of three members:
// debian-binary, control.tar.gz and data.tar.gz (deb(5)).
func (r *release) debian(processor, program string) error {
	version := strings.ReplaceAll(r.version, "-", "~") // 0.1.0~dev comes before 0.1.0
	files, conffiles, err := r.debianFiles(program)
	if err != nil {
		return err
	}
	size, sums := int64(0), ""
	for _, e := range files.entries {
		size += int64(len(e.body)+1023) / 1024
		if !strings.HasPrefix(e.name, "./etc/") {
			sums += fmt.Sprintf("%x  %s\n", md5.Sum(e.body), strings.TrimPrefix(e.name, "./"))
		}
	}
	control := &tree{}
	control.add("./control", fmt.Sprintf(`Package: orbweaver
Version: %s
Architecture: %s
Maintainer: The Orbweaver authors <orbweaver@users.noreply.github.com>
Installed-Size: %d
Section: web
Priority: optional
Homepage: https://github.com/orbweaver/orbweaver
Description: polite distributed web crawler
 Orbweaver downloads whole web sites, politely, and keeps them in standard
 archives (WARC). A crawl can be killed at any moment, and resumed without
 losing a URL. It runs on one machine, or as any number of identical agents.
`, version, processor, size), 0o644)
	control.add("./conffiles", conffiles, 0o644)
	control.add("./md5sums", sums, 0o644)
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		control.copy("./"+script, filepath.Join(r.src, "packaging/debian", script), 0o755)
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	member(&out, "debian-binary", []byte("2.0\n"), r.date)
	for _, part := range []struct {
		name string
		tree *tree
	}{{"control.tar.gz", control}, {"data.tar.gz", files}} {
		packed, err := part.tree.tarGz(r.date)
		if err != nil {
			return err
		}
		member(&out, part.name, packed, r.date)
	}
	name := fmt.Sprintf("orbweaver_%s_%s.deb", version, processor)
	return os.WriteFile(filepath.Join(r.out, name), out.Bytes(), 0o644)
}

// debianFiles returns the files that the package installs, and the list of those that its user may
// change.
func (r *release) debianFiles(program string) (t *tree, conffiles string, err error) {
	t = &tree{}
	t.copy("./usr/bin/orbweaver", program, 0o755)
	from := func(name, path string) { t.copy(name, filepath.Join(r.src, path), 0o644) }
	for _, unit := range []string{"orbweaver@.service", "orbweaver-coordinator.service"} {
		from("./usr/lib/systemd/system/"+unit, "packaging/"+unit)
	}
	from("./usr/lib/sysusers.d/orbweaver.conf", "packaging/sysusers.conf")
	for _, name := range []string{"crawl.yaml", "seeds.txt"} {
		from("./etc/orbweaver/"+name, "packaging/etc/"+name)
		conffiles += "/etc/orbweaver/" + name + "\n"
	}
	t.add("./usr/share/bash-completion/completions/orbweaver", r.scripts["bash"], 0o644)
	t.add("./usr/share/zsh/vendor-completions/_orbweaver", r.scripts["zsh"], 0o644)
	t.add("./usr/share/fish/vendor_completions.d/orbweaver.fish", r.scripts["fish"], 0o644)
	compressed := func(name, text string) {
		packed, bad := gz([]byte(text))
		if bad != nil {
			err = bad
		}
		t.add(name, string(packed), 0o644)
	}
	for _, page := range r.man {
		compressed("./usr/share/man/man1/"+page.name+".gz", string(page.body))
	}
	changes, bad := r.file("CHANGELOG.md")
	if bad != nil {
		return nil, "", bad
	}
	compressed("./usr/share/doc/orbweaver/changelog.gz", changes)
	from("./usr/share/doc/orbweaver/README.md", "README.md")
	license, bad := r.file("LICENSE")
	if bad != nil {
		return nil, "", bad
	}
	others, bad := r.file("cmd/orbweaver/THIRD-PARTY-LICENSES")
	if bad != nil {
		return nil, "", bad
	}
	t.add("./usr/share/doc/orbweaver/copyright", license+"\n"+others, 0o644)
	return t, conffiles, err
}

// member writes a member of an ar archive: a header of 60 bytes, then the body at an even length.
func member(out *bytes.Buffer, name string, body []byte, at time.Time) {
	fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, at.Unix(), 0, 0, 0o100644, len(body))
	out.Write(body)
	if len(body)%2 == 1 {
		out.WriteByte('\n')
	}
}
