namespace Whimbrel.Tool.Doctor;

/// <summary>
/// Files of /proc and /sys below a root, which is empty for the running system and a fake tree in tests. It never
/// throws, returns null for missing or unreadable files, and reads at most 64 KiB of a file.
/// </summary>
internal sealed class SystemTree(string root)
{
    private const int MostCharacters = 64 * 1024;

    /// <summary>Whether /proc describes the system, as on Linux only.</summary>
    internal bool IsLinux => Read("/proc/sys/kernel/osrelease") is not null;

    internal string? Read(string path)
    {
        try
        {
            using StreamReader reader = new(root + path);
            char[] text = new char[MostCharacters];
            return new string(text, 0, reader.ReadBlock(text));
        }
        catch (Exception e)
            when (e is IOException or UnauthorizedAccessException or NotSupportedException or ArgumentException)
        {
            return null;
        }
    }
}
