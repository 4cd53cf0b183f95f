package pg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ulikunitz/xz"
)

// Downloader fetches PostgreSQL server binaries where none are installed: the archives
// that zonky.io publishes on Maven Central for embedding, which
// github.com/fergusstrange/embedded-postgres uses too. The zero value works.
type Downloader struct {
	Base   string       // default: Maven Central
	Client *http.Client // default: one with a bound of downloadTimeout
	Cache  string       // default: the user's cache directory
}

const (
	downloadVersion = "17.5.0"
	downloadTimeout = 3 * time.Minute
	mavenCentral    = "https://repo1.maven.org/maven2"
	maxArchive      = 200 << 20
	maxUnpacked     = 1 << 30
)

// HowToGetPostgres is what to do where there is no PostgreSQL to be had.
const HowToGetPostgres = "install PostgreSQL 15 or later (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17; or from postgresql.org), " +
	"or set EVENTSVC_PG_BIN to the directory of its initdb and postgres, or set DATABASE_URL to a database that runs elsewhere"

// Fetch is the directory of downloaded binaries; it downloads them the first time. Its
// error says what else would do.
func (d Downloader) Fetch(ctx context.Context) (Binaries, error) {
	b, err := d.fetch(ctx)
	if err != nil {
		return Binaries{}, fmt.Errorf("no PostgreSQL was found on this machine, and it could not be downloaded (%w); %s", err, HowToGetPostgres)
	}
	return b, nil
}

func (d Downloader) fetch(ctx context.Context) (Binaries, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	home, err := d.home()
	if err != nil {
		return Binaries{}, err
	}
	if b, err := inspect(ctx, filepath.Join(home, "bin")); err == nil {
		return b, nil
	}
	archive, err := d.archive(ctx)
	if err != nil {
		return Binaries{}, err
	}
	// Unpacked beside its place and renamed, so that a half-unpacked one is never used.
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return Binaries{}, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(home), ".unpacking-")
	if err != nil {
		return Binaries{}, err
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil {
		return Binaries{}, err
	}
	if err := unpack(archive, temp); err != nil {
		return Binaries{}, fmt.Errorf("unpack the archive: %w", err)
	}
	if err := os.RemoveAll(home); err != nil {
		return Binaries{}, err
	}
	if err := os.Rename(temp, home); err != nil {
		return Binaries{}, err
	}
	return inspect(ctx, filepath.Join(home, "bin"))
}

func (d Downloader) home() (string, error) {
	cache := d.Cache
	if cache == "" {
		var err error
		if cache, err = os.UserCacheDir(); err != nil {
			return "", err
		}
		if os.Geteuid() == 0 {
			// The server runs as another user, who cannot look into root's home.
			cache = "/var/cache"
		}
	}
	return filepath.Join(cache, "eventsvc", "postgres-"+downloadVersion), nil
}

// platform is the archive's name for this machine.
func platform() string {
	arch := map[string]string{"amd64": "amd64", "arm64": "arm64v8", "386": "i386", "ppc64le": "ppc64le"}[runtime.GOARCH]
	suffix := ""
	if musl, _ := filepath.Glob("/lib/ld-musl-*"); runtime.GOOS == "linux" && len(musl) > 0 {
		suffix = "-alpine"
	}
	return runtime.GOOS + "-" + arch + suffix
}

// archive downloads the jar and checks it against its published hash.
func (d Downloader) archive(ctx context.Context) ([]byte, error) {
	base := d.Base
	if base == "" {
		base = mavenCentral
	}
	name := "embedded-postgres-binaries-" + platform()
	url := fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar", base, name, downloadVersion, name, downloadVersion)
	want, err := d.get(ctx, url+".sha256")
	if err != nil {
		return nil, err
	}
	jar, err := d.get(ctx, url)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(jar)
	if got := hex.EncodeToString(sum[:]); !strings.HasPrefix(strings.TrimSpace(string(want)), got) {
		return nil, fmt.Errorf("%s does not match its published hash", url)
	}
	return jar, nil
}

func (d Downloader) get(ctx context.Context, url string) ([]byte, error) {
	client := d.Client
	if client == nil {
		client = http.DefaultClient
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxArchive+1))
	if err == nil && len(body) > maxArchive {
		err = fmt.Errorf("%s is larger than %d bytes", url, maxArchive)
	}
	return body, err
}

// unpack takes the tar out of the jar into a directory. Nothing it holds may leave the
// directory.
func unpack(jar []byte, dir string) error {
	z, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".txz") {
			continue
		}
		packed, err := f.Open()
		if err != nil {
			return err
		}
		defer packed.Close()
		plain, err := xz.NewReader(packed)
		if err != nil {
			return err
		}
		return untar(tar.NewReader(io.LimitReader(plain, maxUnpacked)), root)
	}
	return errors.New("it holds no .txz file")
}

func untar(t *tar.Reader, root *os.Root) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(h.Name)
		if name == "." {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			// Libraries link to their neighbours; a link that leads elsewhere has no use.
			if !filepath.IsLocal(filepath.Join(filepath.Dir(name), h.Linkname)) {
				return fmt.Errorf("%s links out of the archive", h.Name)
			}
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = writeFile(root, name, t, os.FileMode(h.Mode)&0o755|0o444)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(root *os.Root, name string, content io.Reader, mode os.FileMode) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, content); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
