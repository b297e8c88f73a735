using System.Text;
using Whimbrel.Http.Files;

namespace Whimbrel.Http.Tests.Files;

// The cache of file metadata and contents, tested alone.
public sealed class CacheTests
{
    private static FileEntry Entry(string name, int bytes) =>
        new(Encoding.UTF8.GetBytes(name), FileVariant.InMemory(new byte[bytes], 0, "text/plain", default),
            null, null, []);

    private static FileEntry OpenEntry(Folder folder, string name)
    {
        File.WriteAllText(folder[name], name);
        return new FileEntry(Encoding.UTF8.GetBytes(name),
            FileVariant.Open(File.OpenHandle(folder[name]), default, "text/plain", default), null, null, []);
    }

    private static bool Has(FileCache cache, string name) => cache.TryGet(Encoding.UTF8.GetBytes(name), out _);

    [Fact]
    public void The_least_recently_requested_entry_is_evicted_first()
    {
        using FileCache cache = new(new HttpFileOptions { CacheLimitFiles = 3 });
        foreach (string name in (string[])["a", "b", "c"]) cache.Put(Entry(name, 1));
        Assert.True(Has(cache, "a"));
        cache.Put(Entry("d", 1));
        Assert.Equal(3, cache.Count);
        Assert.False(Has(cache, "b"));
        Assert.True(Has(cache, "a") && Has(cache, "c") && Has(cache, "d"));
    }

    [Fact]
    public void Bytes_are_held_to_their_limit_and_the_newest_stays_whatever_it_has()
    {
        using FileCache cache = new(new HttpFileOptions { CacheLimitBytes = 10_000 });
        for (int i = 0; i < 100; i++)
        {
            cache.Put(Entry($"{i}", 1000));
            Assert.InRange(cache.Bytes, 1, 10_000);
        }

        cache.Put(Entry("large", 20_000));
        Assert.True(Has(cache, "large"));
        Assert.Equal(1, cache.Count);
        cache.Put(Entry("small", 1));
        Assert.Equal(1, cache.Count);
        Assert.True(Has(cache, "small"));
    }

    [Fact]
    public void One_that_is_replaced_a_thousand_times_is_counted_once()
    {
        using FileCache cache = new(new HttpFileOptions());
        for (int i = 0; i < 1000; i++) cache.Put(Entry("a", i));
        Assert.Equal(1, cache.Count);
        long bytes = cache.Bytes;
        cache.Forget("a"u8);
        Assert.Equal((0, 0L), (cache.Count, cache.Bytes));
        Assert.InRange(bytes, 1000, 3000);
    }

    // The clock keeps replaced entries until it is cleaned up. Otherwise each change of a file would stay in memory.
    [Fact]
    public void One_that_is_replaced_a_hundred_thousand_times_leaves_nothing()
    {
        using FileCache cache = new(new HttpFileOptions());
        WeakReference first = PutOne();
        for (int i = 0; i < 100_000; i++) cache.Put(Entry("a", 10));
        GC.Collect();
        Assert.False(first.IsAlive);
        Assert.Equal(1, cache.Count);

        WeakReference PutOne()
        {
            FileEntry entry = Entry("a", 10);
            cache.Put(entry);
            return new WeakReference(entry);
        }
    }

    [Theory]
    [InlineData(1999, true)]
    [InlineData(2000, false)]
    public void An_entry_is_fresh_until_its_age_is_the_limit(long nowMs, bool isFresh)
    {
        FileEntry entry = Entry("a", 1);
        entry.SetChecked(1000);
        Assert.Equal(isFresh, entry.IsFresh(nowMs, (long)new HttpFileOptions().Freshness.TotalMilliseconds));
        entry.SetChecked(2000);
        Assert.True(entry.IsFresh(nowMs + 999, 1000));
    }

    [Fact]
    public void A_released_open_file_is_closed_by_its_last_user()
    {
        using Folder folder = new();
        using FileCache cache = new(new HttpFileOptions { CacheLimitFiles = 1 });
        FileEntry first = OpenEntry(folder, "a");
        cache.Put(first);
        Assert.True(first.Plain.TryUse());
        cache.Put(Entry("b", 1));
        Assert.False(Has(cache, "a"));
        Assert.Equal(OperatingSystem.IsLinux() ? 1 : 0, folder.OpenFiles());
        Assert.True(first.Plain.TryUse()); // one reference is still held by a response
        first.Plain.EndUse();
        first.Plain.EndUse();
        Assert.Equal(0, folder.OpenFiles());
        Assert.False(first.Plain.TryUse());
    }

    [Fact]
    public void An_open_file_that_is_not_requested_is_closed_after_a_while()
    {
        using Folder folder = new();
        using FileCache cache = new(new HttpFileOptions(), sweepMs: 5);
        cache.Put(OpenEntry(folder, "a"));
        cache.Put(Entry("b", 1));
        Assert.True(SpinWait.SpinUntil(() => folder.OpenFiles() == 0 && !Has(cache, "a"), TimeSpan.FromSeconds(30)));
        Assert.True(Has(cache, "b")); // which costs no descriptor
        cache.Put(OpenEntry(folder, "c"));
        Assert.True(SpinWait.SpinUntil(() => cache.Count == 1, TimeSpan.FromSeconds(30)));
    }

    [Fact]
    public void A_cache_that_is_closed_takes_nothing_in()
    {
        using Folder folder = new();
        using FileCache cache = new(new HttpFileOptions());
        cache.Put(OpenEntry(folder, "a"));
        cache.Clear();
        cache.Put(OpenEntry(folder, "b"));
        Assert.Equal((0, 0L, 0), (cache.Count, cache.Bytes, folder.OpenFiles()));
        cache.Open();
        cache.Put(OpenEntry(folder, "c"));
        Assert.Equal(1, cache.Count);
    }
}
