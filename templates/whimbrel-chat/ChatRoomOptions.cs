namespace Chat_Server;

/// <summary>The section Room of appsettings.json.</summary>
public sealed class ChatRoomOptions
{
    /// <summary>First line that a guest receives.</summary>
    public string Welcome { get; set; } = "Who are you?";

    /// <summary>Maximum length of a name, in characters.</summary>
    public int LongestName { get; set; } = 20;
}
