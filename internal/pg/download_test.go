package pg_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// file is an entry of an archive.
type file struct {
	name, content, link string
}

// jar packs files as the published archives are packed: a zip that holds a .txz.
func jar(t *testing.T, files ...file) []byte {
	t.Helper()
	var packed, out bytes.Buffer
	x, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(x)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		tw.Write([]byte(f.content))
	}
	tw.Close()
	x.Close()
	z := zip.NewWriter(&out)
	w, err := z.Create("postgres-linux-x86_64.txz")
	if err != nil {
		t.Fatal(err)
	}
	w.Write(packed.Bytes())
	z.Close()
	return out.Bytes()
}

func mirror(t *testing.T, archive []byte, sum string) (*httptest.Server, *int) {
	t.Helper()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch {
		case strings.HasSuffix(r.URL.Path, ".jar.sha256"):
			w.Write([]byte(sum))
		case strings.HasSuffix(r.URL.Path, ".jar"):
			w.Write(archive)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestBinariesAreDownloadedOnceWhereThereAreNone(t *testing.T) {
	archive := jar(t, file{name: "./bin/initdb", content: "#!/bin/sh\n"}, file{name: "./bin/postgres", content: "#!/bin/sh\necho 'postgres (PostgreSQL) 17.5'\n"},
		file{name: "./lib/libpq.so.5.17", content: "x"}, file{name: "./lib/libpq.so.5", link: "libpq.so.5.17"})
	s, asked := mirror(t, archive, hash(archive)+"\n")
	d := pg.Downloader{Base: s.URL, Cache: t.TempDir()}
	for range 2 {
		b, err := d.Fetch(t.Context())
		if err != nil || b.Major != 17 {
			t.Fatalf("got %+v, %v", b, err)
		}
		if _, err := os.Stat(filepath.Join(b.Dir, "..", "lib", "libpq.so.5")); err != nil {
			t.Error(err)
		}
	}
	if *asked != 2 {
		t.Errorf("asked %d times, want once for the archive and once for its hash", *asked)
	}
}

func TestADownloadThatFailsSaysWhatElseWouldDo(t *testing.T) {
	archive := jar(t, file{name: "bin/postgres", content: "x"})
	for name, c := range map[string]struct {
		archive []byte
		sum     string
		says    string
	}{
		"another hash":   {archive, hash([]byte("other")), "published hash"},
		"no archive":     {[]byte("text"), hash([]byte("text")), "unpack"},
		"out of it":      {jar(t, file{name: "../../evil", content: "x"}), "", "unpack"},
		"link out of it": {jar(t, file{name: "bin/evil", link: "../../../etc/passwd"}), "", "links out"},
		"not all":        {archive, hash(archive), "initdb"},
	} {
		sum := c.sum
		if sum == "" {
			sum = hash(c.archive)
		}
		s, _ := mirror(t, c.archive, sum)
		cache := t.TempDir()
		_, err := pg.Downloader{Base: s.URL, Cache: cache}.Fetch(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "apt-get install postgresql") || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(cache, "..", "evil")); err == nil {
			t.Errorf("%s: wrote outside", name)
		}
	}
	if _, err := (pg.Downloader{Base: "http://127.0.0.1:1", Cache: t.TempDir()}).Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no network: got %v", err)
	}
}
