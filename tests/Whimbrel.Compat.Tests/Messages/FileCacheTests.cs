using System.Diagnostics;
using System.Text;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Messages;

public sealed class FileCacheTests : IDisposable
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(30);

    private readonly string _folder = Directory.CreateTempSubdirectory("compat").FullName;
    private readonly FileCache _cache = new();

    public void Dispose()
    {
        _cache.Dispose();
        Directory.Delete(_folder, recursive: true);
    }

    // H7: the default prefix produced keys with two slashes, so files were not found. C10: an entry was returned as a
    // view of memory that the next one might overwrite.
    [Fact]
    public void C10_a_found_value_does_not_change_when_its_key_gets_another_value()
    {
        using FileCache cache = new();
        Assert.True(cache.Add("/key", [1, 2, 3]));
        (_, byte[] found) = cache.Find("/key");
        Assert.True(cache.Add("/key", [4, 5, 6]));
        Assert.Equal([1, 2, 3], found);
        Assert.Equal([4, 5, 6], cache.Find("/key").Item2);
        Assert.True(cache.Remove("/key"));
        Assert.Equal([1, 2, 3], found);
    }

    [Fact]
    public void H7_files_are_found_under_their_prefix_with_one_slash_and_have_their_exact_bytes()
    {
        Write("index.html", "<p>");
        Write("a/b/c.txt", "deep");
        Assert.True(_cache.InsertPath(_folder));
        Assert.Equal(("<p>", "deep", null), (Find("/index.html"), Find("/a/b/c.txt"), Find("//index.html")));
        Assert.Equal(3, _cache.Find("/index.html").Item2.Length);
        using FileCache other = new();
        Assert.True(other.InsertPath(_folder, "/static", "*.txt"));
        Assert.Equal((1, true), (other.Size, other.Find("/static/a/b/c.txt").Item1));
        Assert.True(other.FindPath(_folder + "/"));
        Assert.True(other.RemovePath(_folder));
        Assert.True(other.Empty && !other.FindPath(_folder) && !other.RemovePath(_folder));
        Assert.Throws<ArgumentException>(() => other.InsertPath(Path.Combine(_folder, "nowhere")));
    }

    [Fact]
    public void A_folder_is_followed()
    {
        Write("a.txt", "1");
        Assert.True(_cache.InsertPath(_folder));
        Write("a.txt", "22");
        Write("new/b.txt", "3");
        Until(() => Find("/a.txt") == "22" && Find("/new/b.txt") == "3");
        File.Move(Path.Combine(_folder, "a.txt"), Path.Combine(_folder, "c.txt"));
        Until(() => Find("/a.txt") is null && Find("/c.txt") == "22");
        Directory.Delete(Path.Combine(_folder, "new"), recursive: true);
        File.Delete(Path.Combine(_folder, "c.txt"));
        Until(() => _cache.Empty);
        Assert.True(_cache.RemovePath(_folder));
        Write("late.txt", "4");
        Assert.True(_cache.Empty);
    }

    [Fact] // slow growth: the system allows a process only some of them
    public void A_removed_folder_is_not_watched_any_more()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Watchers are counted by /proc.");
        Write("a.txt", "1");
        int before = Watchers(), left;
        // A forgotten watcher would be ended by the collector as well, some time.
        Assert.True(GC.TryStartNoGCRegion(64 << 20));
        try
        {
            Assert.True(_cache.InsertPath(_folder));
            Assert.Equal(before + 1, Watchers());
            Assert.True(_cache.RemovePath(_folder));
            left = Watchers();
        }
        finally
        {
            GC.EndNoGCRegion();
        }

        Assert.Equal(before, left);

        // .NET has one inotify descriptor for all watchers, which lists the watched folders.
        static int Watchers() => Directory.GetFiles("/proc/self/fdinfo").Sum(static file =>
        {
            try
            {
                return File.ReadLines(file).Count(static l => l.StartsWith("inotify ", StringComparison.Ordinal));
            }
            catch (IOException)
            {
                return 0; // closed meanwhile
            }
        });
    }

    [Fact]
    public void A_file_outside_the_folder_is_not_served_through_a_link()
    {
        string inside = Path.Combine(_folder, "root"), outside = Path.Combine(_folder, "secret");
        Directory.CreateDirectory(inside);
        Write("secret/key.pem", "secret");
        Write("root/a.txt", "a");
        File.CreateSymbolicLink(Path.Combine(inside, "key"), Path.Combine(outside, "key.pem"));
        File.CreateSymbolicLink(Path.Combine(inside, "again.txt"), Path.Combine(inside, "a.txt"));
        Directory.CreateSymbolicLink(Path.Combine(inside, "folder"), outside);
        Assert.True(_cache.InsertPath(inside));
        Assert.Equal(("a", "a", null, null),
            (Find("/a.txt"), Find("/again.txt"), Find("/key"), Find("/folder/key.pem")));
        Assert.Equal(2, _cache.Size);
    }

    [Fact]
    public void A_value_is_not_found_after_its_timeout_and_a_file_is_read_again()
    {
        Assert.True(_cache.Add("k", [1], TimeSpan.FromMilliseconds(1)));
        Until(() => !_cache.Find("k").Item1);
        Assert.Equal(0, _cache.Size);
        Write("a.txt", "1");
        List<string> read = [];
        Assert.True(_cache.InsertPath(_folder, timeout: TimeSpan.FromMilliseconds(1),
            handler: (cache, key, value, timeout) =>
            {
                lock (read) read.Add(key);
                return cache.Add(key, [.. "head "u8, .. value], timeout);
            }));
        Until(() => Find("/a.txt") == "head 1" && Count(read) > 1);
    }

    [Fact]
    public void A_handler_may_refuse_and_values_go_when_they_are_removed()
    {
        Write("a.txt", "1");
        Assert.True(_cache.InsertPath(_folder, handler: static (_, _, _, _) => false));
        Assert.True(_cache.Empty);
        Assert.True(_cache.Add("k", [1]) && _cache.Add("k", [1, 2]));
        Assert.Equal(2, _cache.Find("k").Item2.Length);
        Assert.True(_cache.Remove("k"));
        Assert.False(_cache.Remove("k"));
        _cache.Add("x", [1]);
        _cache.Clear();
        Assert.True(_cache.Empty && !_cache.FindPath(_folder));
        _cache.Dispose();
        Assert.False(_cache.Add("k", [1]));
        Assert.False(_cache.InsertPath(_folder));
    }

    [Fact] // the limit at its number and one past it, after each way in which values leave the cache
    public void All_values_together_take_up_to_the_limit_however_often_they_change()
    {
        byte[] value = new byte[FileCache.MostBytes / 8]; // one array for all: the cache makes no copies
        for (int round = 0; round < 3; round++)
        {
            for (int i = 0; i < 20; i++) Assert.True(_cache.Add("same", value)); // replaced
            for (int i = 0; i < 20; i++) Assert.True(_cache.Add("gone", value) && _cache.Remove("gone"));
            for (int i = 0; i < 20; i++)
            {
                Assert.True(_cache.Add("late", value, TimeSpan.FromMilliseconds(1)));
                Until(() => !_cache.Find("late").Item1);
            }

            for (int i = 0; i < 7; i++) Assert.True(_cache.Add($"{i}", value));
            Assert.False(_cache.Add("one more", [1]));
            Assert.True(_cache.Add("same", [1]) && _cache.Add("one more", [1]));
            _cache.Clear();
        }
    }

    [Fact]
    public void A_pipe_among_the_files_blocks_no_caller()
    {
        string pipe = Path.Combine(_folder, "pipe");
        using Process? made = Process.Start("mkfifo", pipe);
        made!.WaitForExit();
        Write("a.txt", "1");
        Assert.True(_cache.InsertPath(_folder));
        Assert.Equal("1", Find("/a.txt"));
    }

    private static int Count(List<string> list)
    {
        lock (list) return list.Count;
    }

    private string? Find(string key) => _cache.Find(key) is (true, { } value) ? Encoding.UTF8.GetString(value) : null;

    private void Write(string name, string text)
    {
        string path = Path.Combine(_folder, name);
        Directory.CreateDirectory(Path.GetDirectoryName(path)!);
        File.WriteAllText(path, text);
    }

    private static void Until(Func<bool> isSo)
    {
        long end = Environment.TickCount64 + (long)s_deadline.TotalMilliseconds;
        while (!isSo())
        {
            Assert.True(Environment.TickCount64 < end, "it did not come");
            Thread.Yield();
        }
    }
}
