using System.Diagnostics;

namespace Whimbrel.Http.Tests.Files;

/// <summary>A temporary folder with a served root and files that must never be served. Deleted at the end of the
/// test.</summary>
internal sealed class Folder : IDisposable
{
    internal const string Secret = "what nobody may read";

    internal Folder()
    {
        Directory.CreateDirectory(Root);
        File.WriteAllText(System.IO.Path.Combine(Path, "secret"), Secret);
        Directory.CreateDirectory(System.IO.Path.Combine(Path, "etc"));
        File.WriteAllText(System.IO.Path.Combine(Path, "etc", "passwd"), Secret);
    }

    internal string Path { get; } = Directory.CreateTempSubdirectory("whimbrel-files-").FullName;

    internal string Root => System.IO.Path.Combine(Path, "served");

    internal string this[string name] => System.IO.Path.Combine(Root, name);

    internal string Write(string name, string text) => Write(name, System.Text.Encoding.UTF8.GetBytes(text));

    internal string Write(string name, byte[] bytes)
    {
        Directory.CreateDirectory(System.IO.Path.GetDirectoryName(this[name])!);
        File.WriteAllBytes(this[name], bytes);
        return this[name];
    }

    internal static byte[] Random(int length, int seed)
    {
        byte[] bytes = new byte[length];
        Noise.Fill(bytes, seed);
        return bytes;
    }

    /// <summary>Number of open descriptors of this process for files in this folder, including deleted files.</summary>
    internal int OpenFiles() => Directory.Exists("/proc/self/fd")
        ? Directory.EnumerateFileSystemEntries("/proc/self/fd")
            .Count(entry => (new FileInfo(entry).LinkTarget ?? "").StartsWith(Path, StringComparison.Ordinal))
        : 0;

    internal static bool TryMakePipe(string path)
    {
        if (!OperatingSystem.IsLinux()) return false;
        using Process? made = Process.Start("mkfifo", path);
        made.WaitForExit();
        return made.ExitCode == 0;
    }

    public void Dispose() => Directory.Delete(Path, recursive: true);
}
