using System.Text;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Acme.Tests;

/// <summary>The folder: modes, whole values, leases, and disks that are full.</summary>
public sealed class FolderStoreTests : IDisposable
{
    private static readonly TimeSpan s_minute = TimeSpan.FromMinutes(1);
    private readonly string _folder = AcmeNode.NewFolder();

    [Fact]
    public async Task Values_are_private_replaced_as_a_whole_and_leave_no_other_files()
    {
        FolderAcmeStore store = new(Path.Combine(_folder, "new"));
        Assert.Null(await store.ReadAsync("a/b.pem", default));
        await store.WriteAsync("a/b.pem", new byte[100_000], default);
        await store.WriteAsync("a/b.pem", "short"u8.ToArray(), default);
        Assert.Equal("short", Encoding.ASCII.GetString((await store.ReadAsync("a/b.pem", default))!));
        string file = Path.Combine(store.Path, "a", "b.pem");
        if (!OperatingSystem.IsWindows())
        {
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(file));
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute,
                File.GetUnixFileMode(Path.GetDirectoryName(file)!));
        }

        Assert.Equal([file], Directory.GetFiles(store.Path, "*", SearchOption.AllDirectories));
        await store.DeleteAsync("a/b.pem", default);
        await store.DeleteAsync("a/b.pem", default);
        await store.DeleteAsync("c/d", default);
        Assert.Null(await store.ReadAsync("a/b.pem", default));
    }

    [Theory]
    [InlineData("../a")]
    [InlineData("a//b")]
    [InlineData("/etc/passwd")]
    [InlineData("a/.hidden")]
    [InlineData("A")]
    [InlineData("")]
    public async Task A_name_cannot_lead_out_of_the_folder(string name) =>
        await Assert.ThrowsAsync<ArgumentException>(
            async () => await new FolderAcmeStore(_folder).ReadAsync(name, default));

    [Fact]
    public async Task A_value_at_the_limit_is_read_and_a_larger_one_is_not()
    {
        FolderAcmeStore store = new(_folder);
        await store.WriteAsync("a", new byte[256 * 1024], default);
        Assert.Equal(256 * 1024, (await store.ReadAsync("a", default))!.Length);
        await store.WriteAsync("a", new byte[256 * 1024 + 1], default);
        IOException e = await Assert.ThrowsAsync<IOException>(async () => await store.ReadAsync("a", default));
        Assert.Contains("262,145 bytes", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Sixteen_reads_for_challenges_run_at_a_time_and_further_ones_find_nothing()
    {
        const string Token = "0123456789abcdef";
        RefusingStore store = new(new FolderAcmeStore(_folder)) { Gate = new TaskCompletionSource() };
        string record = $"localhost_1/challenges/{Convert.ToHexStringLower("0123456789abcdef"u8)}";
        await store.WriteAsync(record, "answer"u8.ToArray(), default);
        await using AcmeNode node = new("https://localhost:1/dir", _folder,
            new AcmeOptions { Names = ["one.test"], Store = store });
        List<Task<string?>> waiting =
            [.. Enumerable.Range(0, 16).Select(_ => node.Certificate.AnswerAsync(Token).AsTask())];
        Assert.Null(await node.Certificate.AnswerAsync(Token));
        Assert.All(waiting, static t => Assert.False(t.IsCompleted));
        store.Gate.SetResult();
        Assert.All(await Task.WhenAll(waiting), static a => Assert.Equal("answer", a));
        Assert.Equal("answer", await node.Certificate.AnswerAsync(Token));
    }

    [Fact]
    public async Task A_lease_has_one_owner_until_it_ends_or_its_time_has_passed()
    {
        FolderAcmeStore one = new(_folder), two = new(_folder);
        Assert.True(await one.TryLeaseAsync("l", "a", s_minute, default));
        Assert.False(await two.TryLeaseAsync("l", "b", s_minute, default));
        Assert.True(await one.TryLeaseAsync("l", "a", s_minute, default));
        await two.EndLeaseAsync("l", "b", default);
        Assert.False(await two.TryLeaseAsync("l", "b", s_minute, default));
        await one.EndLeaseAsync("l", "a", default);
        Assert.True(await two.TryLeaseAsync("l", "b", TimeSpan.FromMilliseconds(-1), default));
        Assert.True(await one.TryLeaseAsync("l", "a", s_minute, default));
        await File.WriteAllTextAsync(Path.Combine(_folder, "l"), "half a lea");
        Assert.True(await two.TryLeaseAsync("l", "b", s_minute, default));
    }

    [Fact]
    public async Task Of_many_that_take_a_lease_together_one_gets_it()
    {
        for (int i = 0; i < 20; i++)
        {
            bool[] taken = await Task.WhenAll(Enumerable.Range(0, 8).Select(n => Task.Run(async () =>
                await new FolderAcmeStore(_folder).TryLeaseAsync($"l{i}", $"n{n}", s_minute, default))));
            Assert.Single(taken, static t => t);
        }
    }

    [Fact]
    public async Task A_full_disk_orders_nothing_and_leaves_the_old_certificate_in_use()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess,
            "Mounting a small disk needs root.");
        string disk = AcmeNode.NewFolder();
        try
        {
            await RealProgram.RunAsync("mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "none", disk);
        }
        catch (Exception e) when (e is not OperationCanceledException)
        {
            Assert.Skip($"A small disk cannot be mounted here: {e.Message.Split('\n')[0]}");
        }

        try
        {
            await using FakeAuthority authority = await FakeAuthority.StartAsync();
            await using AcmeNode node = new(authority.Directory, disk);
            await node.Certificate.StartAsync();
            await node.NextCertificateAsync();
            string serial = node.Certificate.Current!.SerialNumber;
            // The end of the lease deletes its file, and the place would be enough for the next lease.
            for (int i = 0; i < 2000 && HasLease(disk); i++)
            {
                // tidy: waits because no event reports the end of a lease
                await Task.Delay(5, TestContext.Current.CancellationToken);
            }

            Fill(Path.Combine(disk, "filler"));
            int orders = authority.Orders.Count;
            node.Certificate.RequestRenewal();
            await node.EventAsync("No space left on device");
            Assert.Equal(orders, authority.Orders.Count);
            Assert.Equal(serial, node.Certificate.Current!.SerialNumber);

            // A restart on the full disk reads the whole old certificate.
            await using AcmeNode restarted = new(authority.Directory, disk);
            await restarted.Certificate.StartAsync();
            Assert.Equal(serial, restarted.Certificate.Current!.SerialNumber);

            File.Delete(Path.Combine(disk, "filler"));
            node.Certificate.RequestRenewal();
            await node.NextCertificateAsync();
            Assert.NotEqual(serial, node.Certificate.Current!.SerialNumber);
        }
        finally
        {
            await RealProgram.RunAsync("umount", "-l", disk);
            RealProgram.Remove(disk);
        }
    }

    private static bool HasLease(string folder) =>
        Directory.GetFiles(folder, "*.lease", SearchOption.AllDirectories).Length > 0;

    private static void Fill(string path)
    {
        try
        {
            using FileStream file = new(path, FileMode.Create, FileAccess.Write, FileShare.None, bufferSize: 0);
            while (true) file.Write(new byte[512]);
        }
        catch (IOException)
        {
            // It is full.
        }
    }

    [Fact]
    public async Task A_broken_file_is_reported_and_the_certificate_in_use_stays_until_a_whole_one_comes()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        await using AcmeNode node = new(authority.Directory, _folder);
        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        string file = Directory.GetFiles(_folder, "one.test.pem", SearchOption.AllDirectories).Single();
        string whole = await File.ReadAllTextAsync(file);
        await File.WriteAllTextAsync(file, whole[..(whole.Length / 2)]);
        string notice = await node.EventAsync("of the store cannot be used: ");
        Assert.Contains("stays in use", notice, StringComparison.Ordinal);
        Assert.NotNull(node.Certificate.Current);
        node.Certificate.RequestRenewal();
        await node.NextCertificateAsync();
        Assert.Contains("PRIVATE KEY", await File.ReadAllTextAsync(file), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_certificate_that_cannot_be_stored_is_stored_by_the_next_attempt_without_another_order()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        RefusingStore store = new(new FolderAcmeStore(_folder));
        await using AcmeNode node = new(authority.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], Store = store });
        await node.Certificate.StartAsync();
        await node.NextCertificateAsync();
        string serial = node.Certificate.Current!.SerialNumber;
        store.Refused = ".pem";
        node.Certificate.RequestRenewal();
        await node.EventAsync("the store is read-only");
        Assert.Equal(serial, node.Certificate.Current!.SerialNumber);
        Assert.Equal(2, authority.Orders.Count);
        store.Refused = null;
        await node.NextCertificateAsync();
        Assert.NotEqual(serial, node.Certificate.Current!.SerialNumber);
        Assert.Equal(2, authority.Orders.Count);
    }

    [Fact]
    public async Task A_store_that_fails_is_reported_and_works_again_later()
    {
        await using FakeAuthority authority = await FakeAuthority.StartAsync();
        RefusingStore store = new(new FolderAcmeStore(_folder));
        await using AcmeNode node = new(authority.Directory, _folder,
            new AcmeOptions { Names = ["one.test"], Store = store });
        store.Refused = ".lease";
        await node.Certificate.StartAsync();
        await node.EventAsync("cannot be used: the store is read-only");
        store.Refused = null;
        await node.NextCertificateAsync();
    }

    public void Dispose() => RealProgram.Remove(_folder);

    private sealed class RefusingStore(IAcmeStore inner) : IAcmeStore
    {
        internal volatile string? Refused;

        /// <summary>Reads wait for it, if there is one.</summary>
        internal TaskCompletionSource? Gate { get; init; }

        private void Check(string name)
        {
            if (Refused is { } refused && name.EndsWith(refused, StringComparison.Ordinal))
                throw new IOException("the store is read-only");
        }

        public async ValueTask<byte[]?> ReadAsync(string name, CancellationToken stop)
        {
            if (Gate is { } gate) await gate.Task;
            return await inner.ReadAsync(name, stop);
        }

        public ValueTask WriteAsync(string name, ReadOnlyMemory<byte> value, CancellationToken stop)
        {
            Check(name);
            return inner.WriteAsync(name, value, stop);
        }

        public ValueTask DeleteAsync(string name, CancellationToken stop) => inner.DeleteAsync(name, stop);

        public ValueTask<bool> TryLeaseAsync(string name, string owner, TimeSpan duration, CancellationToken stop)
        {
            Check(name);
            return inner.TryLeaseAsync(name, owner, duration, stop);
        }

        public ValueTask EndLeaseAsync(string name, string owner, CancellationToken stop) =>
            inner.EndLeaseAsync(name, owner, stop);
    }
}
