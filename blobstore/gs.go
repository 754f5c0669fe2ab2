package blobstore

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
)

// openGS opens gs://BUCKET/PREFIX with the application default credentials
// (GOOGLE_APPLICATION_CREDENTIALS, gcloud's, the machine's). Parameters:
//
//	anonymous=BOOL   without credentials, for public buckets
//
// STORAGE_EMULATOR_HOST names an emulator instead of Google, for every bucket
// of this process.
func openGS(ctx context.Context, u cloudURL, transport http.RoundTripper) (*bucket, error) {
	anonymous, err := u.takeBool("anonymous", false)
	if err != nil {
		return nil, err
	}
	if err := u.noMore(); err != nil {
		return nil, err
	}
	opts := []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: transport})}
	if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		opts = append(opts, option.WithoutAuthentication(), option.WithEndpoint(strings.TrimSuffix(host, "/")+"/storage/v1/"))
	} else if !anonymous {
		creds, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, &fault{kind: ErrPermission, what: "no keys for " + u.root() + ": set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login"}
		}
		opts[0] = option.WithHTTPClient(&http.Client{Transport: &oauth2.Transport{Base: transport, Source: creds.TokenSource}})
	}
	client, err := storage.NewClient(ctx, opts...)
	if err != nil {
		return nil, cloudSetup(ctx, u, err)
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever)) // Retrying repeats, and knows what may be repeated
	b, err := gcsblob.OpenBucket(ctx, nil, u.bucket, &gcsblob.Options{Client: client})
	if err != nil {
		client.Close()
		return nil, cloudSetup(ctx, u, err)
	}
	closeAll := func() {
		client.Close()
		idle(transport)()
	}
	return newBucket(u, b, &gsProvider{client: client, bucket: u.bucket}, closeAll), nil
}

// gsProvider is Google Cloud Storage. Its version is the generation, which
// never repeats.
type gsProvider struct {
	client *storage.Client
	bucket string
}

var _ provider = (*gsProvider)(nil)

// oneRequest is the size in bytes below which an upload is one request, not a
// session that can be resumed.
const oneRequest = 8 << 20

func generation(n int64) Version { return Version(strconv.FormatInt(n, 10)) }

func (v Version) generation() int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p *gsProvider) writing(ctx context.Context, w *upload) (context.Context, func(as func(any) bool) error) {
	var gw *storage.Writer
	w.after = func() (Version, error) {
		if gw == nil || gw.Attrs() == nil {
			return "", nil
		}
		return generation(gw.Attrs().Generation), nil
	}
	return ctx, func(as func(any) bool) error {
		if w.have != "" {
			var obj **storage.ObjectHandle // the handle first: the writer is made of it
			if !as(&obj) {
				return errors.New("blobstore: gocloud.dev/blob/gcsblob uploads in another way than expected")
			}
			*obj = (*obj).If(storage.Conditions{GenerationMatch: w.have.generation()})
		}
		if !as(&gw) {
			return errors.New("blobstore: gocloud.dev/blob/gcsblob uploads in another way than expected")
		}
		if w.size < oneRequest {
			gw.ChunkSize = 0
		}
		return nil
	}
}

func (p *gsProvider) reading(v Version) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var obj **storage.ObjectHandle
		if as(&obj) {
			*obj = (*obj).Generation(v.generation())
		}
		return nil
	}
}

func (p *gsProvider) read(r *blob.Reader) Info {
	var out *storage.Reader
	if !r.As(&out) {
		return Info{}
	}
	return Info{Version: generation(out.Attrs.Generation), SHA256: out.Metadata()[metaSHA]}
}

func (p *gsProvider) attributes(a *blob.Attributes) Info {
	var out storage.ObjectAttrs
	if !a.As(&out) {
		return Info{}
	}
	return Info{Version: generation(out.Generation), SHA256: out.Metadata[metaSHA]}
}

func (p *gsProvider) listed(o *blob.ListObject) Info {
	var out storage.ObjectAttrs
	if !o.As(&out) {
		return Info{}
	}
	return Info{Version: generation(out.Generation), SHA256: out.Metadata[metaSHA]}
}

func (p *gsProvider) listing() func(as func(any) bool) error { return nil }

// renew copies the object onto itself: a new generation, made now.
func (p *gsProvider) renew(ctx context.Context, key string, info Info) error {
	stored, err := storedKey(key, gsSpecial)
	if err != nil {
		return err
	}
	obj := p.client.Bucket(p.bucket).Object(stored)
	same := storage.Conditions{GenerationMatch: info.Version.generation()}
	_, err = obj.If(same).CopierFrom(obj).Run(ctx) // attributes go along
	return err
}

func (p *gsProvider) possible(v Version) bool { return v.generation() > 0 }

func (p *gsProvider) find(err error) (reply, bool) {
	var api *googleapi.Error
	switch {
	case errors.As(err, &api):
		r := reply{status: api.Code, message: api.Message}
		if len(api.Errors) > 0 && api.Errors[0].Reason != "" {
			r.code = api.Errors[0].Reason
		}
		return r, true
	case errors.Is(err, storage.ErrBucketNotExist):
		return reply{status: http.StatusNotFound, code: "NoSuchBucket"}, true
	case errors.Is(err, storage.ErrObjectNotExist):
		return reply{status: http.StatusNotFound}, true
	}
	return reply{}, false
}
