package main

import (
	"bytes"
	"io"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nobody is the user and the group of the program in a container.
const nobody = 65532

// image writes the container image of a processor, as "docker load" and "podman load" read it. It is
// the image of the Dockerfile.
func (r *release) image(processor, program string) error {
	t := &tree{}
	t.copy("orbweaver", program, 0o755)
	t.copy("licenses/LICENSE", filepath.Join(r.src, "LICENSE"), 0o644)
	t.copy("licenses/THIRD-PARTY-LICENSES", filepath.Join(r.src, "cmd/orbweaver/THIRD-PARTY-LICENSES"), 0o644)
	t.add("etc/passwd", "orbweaver:x:65532:65532:Orbweaver:/crawl:/orbweaver\n", 0o644)
	t.add("etc/group", "orbweaver:x:65532:\n", 0o644)
	t.folder("crawl/", 0o755, nobody)
	t.folder("keys/", 0o755, nobody)
	t.folder("tmp/", 0o1777, 0)
	packed, err := t.tar(r.date)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed)), nil
	})
	if err != nil {
		return err
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: layer,
		History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "make release"}})
	if err != nil {
		return err
	}
	old, err := img.ConfigFile()
	if err != nil {
		return err
	}
	cfg := old.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Created = "linux", processor, v1.Time{Time: r.date}
	cfg.Config = v1.Config{
		User: "65532:65532", WorkingDir: "/crawl", Volumes: map[string]struct{}{"/crawl": {}},
		Entrypoint: []string{"/orbweaver"}, Cmd: []string{"--help"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Orbweaver",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.source":   "https://github.com/orbweaver/orbweaver",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return err
	}
	tag, err := name.NewTag("orbweaver:latest")
	if err != nil {
		return err
	}
	file := "orbweaver-" + r.version + "-image-" + processor + ".tar"
	return tarball.WriteToFile(filepath.Join(r.out, file), tag, img)
}
