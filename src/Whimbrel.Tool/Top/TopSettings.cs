namespace Whimbrel.Tool.Top;

/// <summary>Settings of <c>whimbrel top</c>.</summary>
/// <param name="Path">Path of the status socket, or null.</param>
/// <param name="ProcessId">Process of the status socket, if there is no path.</param>
/// <param name="Json">True to print one snapshot and end.</param>
/// <param name="Every">Time between two updates.</param>
/// <param name="Duration">Time after which the command ends, or null.</param>
internal sealed record TopSettings(string? Path, int ProcessId, bool Json, TimeSpan Every, TimeSpan? Duration);
