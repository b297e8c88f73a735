namespace Whimbrel.Tool.Top;

/// <summary>What <c>whimbrel top</c> was asked for.</summary>
/// <param name="Path">The status socket, or null.</param>
/// <param name="ProcessId">Process of the status socket, if there is no path.</param>
/// <param name="Json">One snapshot as it comes, and no more.</param>
/// <param name="Every">Time between two looks.</param>
/// <param name="Duration">Ends by itself after this time, or null.</param>
internal sealed record TopSettings(string? Path, int ProcessId, bool Json, TimeSpan Every, TimeSpan? Duration);
