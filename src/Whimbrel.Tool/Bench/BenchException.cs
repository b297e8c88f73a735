namespace Whimbrel.Tool.Bench;

/// <summary>The target is not what the load needs. The message has the reason and the cure.</summary>
internal sealed class BenchException(string message) : Exception(message);
