using System.Text;
using NetCoreServer;
using Buffer = NetCoreServer.Buffer;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Buffer, FileCache, Utilities and the other small classes.</summary>
internal static class Tools
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "Utilities and StringExtensions",
            static () => Seen.Lines(
                static () => string.Join(", ", new double[] { 0, 1, 1023, 1024, 1536, 1048576, 5e9, 5e12 }
                .Select(Utilities.GenerateDataSize)),
                static () => string.Join(", ", new[] { 0, 0.000001, 0.5, 1, 999.9, 1000, 61_000, 3_661_001 }
                .Select(Utilities.GenerateTimePeriod)),
                static () => Seen.All(
                static () => "name!".RemoveSuffix('!'), static () => "name.txt".RemoveSuffix(".txt"),
                static () => "name".RemoveSuffix("x"),
                static () => " a\tb ".RemoveWhiteSpace())),
            "0 bytes, 1 bytes, 1023 bytes, 1.000 KiB, 1.512 KiB, 1.000 MiB, 4.672 GiB, 4.560 TiB ~ 0 ns, 1 ns, "
            + "500.000 mcs, 1.000 ms, 999.900 ms, 1.000 s, 1:01.000 m, 1:01:01.001 h ~ name name name ab"),
        new(
            "Buffer: growth",
            BufferGrowth,
            "True 0 0 0 4 15 10 15 101 ex 12+0 12+0 100 12+3 12+2 5+2 0+0 100 0"),
        new(
            "Buffer: wrong places",
            BufferWrong,
            "ArgumentException ArgumentException ArgumentException 4 7 2"),
        new(
            "FileCache: find, remove, clear",
            Cached,
            "False True text True other 1 False True False False"),
        new(
            "FileCache: a folder",
            Folder,
            "True 2 False False False True True 0",
            "True 2 True True False True True 0",
            "`FileCache.InsertPath` with the prefix `/`"),
        new(
            "FileCache: a folder that is not there",
            static () =>
        {
            using FileCache cache = new();
            return Seen.All(() => cache.InsertPath("/no/such/folder"), () => cache.FindPath("/no/such/folder"),
                () => cache.RemovePath("/x"), () => cache.Empty);
        },
            "ArgumentException False False True"),
    ];

    private static string BufferGrowth()
    {
        Buffer buffer = new();
        string fresh = Seen.All(() => buffer.IsEmpty, () => buffer.Capacity, () => buffer.Size, () => buffer.Offset);
        return fresh + " " + Seen.All(
            () => buffer.Append("text"), () => buffer.Capacity, () => buffer.Append(new byte[10]),
            () => buffer.Capacity, () => buffer[1],
            () => buffer.ExtractString(1, 2), () => Do(() => buffer.Remove(0, 2), buffer),
            () => Do(() => buffer.Reserve(100), buffer),
            () => buffer.Capacity, () => Do(() => buffer.Shift(3), buffer), () => Do(() => buffer.Unshift(1), buffer),
            () => Do(() => buffer.Resize(5), buffer), () => Do(buffer.Clear, buffer), () => buffer.Capacity,
            () => buffer.ToString()!.Length);
    }

    private static string Do(Action action, Buffer buffer)
    {
        action();
        return $"{buffer.Size}+{buffer.Offset}";
    }

    private static string BufferWrong()
    {
        Buffer buffer = new();
        buffer.Append("text");
        return Seen.All(
            () => buffer.ExtractString(2, 3), () => Do(() => buffer.Remove(3, 2), buffer),
            () => Do(() => buffer.Reserve(-1), buffer),
            () => buffer.Size, () => new Buffer(7).Capacity, () => new Buffer("xy"u8.ToArray()).Size);
    }

    private static string Cached()
    {
        using FileCache cache = new();
        return Seen.All(
            () => cache.Find("/a").Item1, () => cache.Add("/a", "text"u8.ToArray()),
            () => Encoding.UTF8.GetString(cache.Find("/a").Item2),
            () => cache.Add("/a", "other"u8.ToArray()), () => Encoding.UTF8.GetString(cache.Find("/a").Item2),
            () => cache.Size, () => cache.Empty,
            () => cache.Remove("/a"), () => cache.Remove("/a"), () => cache.Find("/a").Item1);
    }

    private static string Folder()
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("compat");
        try
        {
            File.WriteAllText(Path.Combine(folder.FullName, "a.txt"), "A");
            folder.CreateSubdirectory("b");
            File.WriteAllText(Path.Combine(folder.FullName, "b", "c.txt"), "C");
            using FileCache cache = new();
            return Seen.All(
                () => cache.InsertPath(folder.FullName), () => cache.Size, () => cache.Find("/a.txt").Item1,
                () => cache.Find("/b/c.txt").Item1,
                () => cache.Find("a.txt").Item1, () => cache.FindPath(folder.FullName),
                () => cache.RemovePath(folder.FullName), () => cache.Size);
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }
}
