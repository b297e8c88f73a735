namespace Whimbrel.Schedules;

/// <summary>An order of the threads breaks a rule.</summary>
internal sealed class ScheduleException(string message) : Exception(message);
