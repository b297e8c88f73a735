namespace Whimbrel.Tool.Top;

/// <summary>Reason why there is nothing to show, as a sentence for the user.</summary>
internal sealed class TopException(string message) : Exception(message);
