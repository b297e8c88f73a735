namespace Whimbrel.Tool.Doctor;

/// <summary>Input of the doctor. Tests replace its parts.</summary>
/// <param name="System">Files of /proc and /sys.</param>
/// <param name="Support">Returns whether an engine can run here: <see cref="Engine.SupportFor"/>.</param>
/// <param name="Processors">Number of CPUs that the process may use, with its CPU limit rounded up.</param>
/// <param name="Loops">Number of loops that the program will have.</param>
/// <param name="Collector">Garbage collector of the program; null if its settings cannot be parsed.</param>
internal sealed record Examined(SystemTree System, Func<EngineKind, EngineSupport> Support, int Processors, int Loops,
    GarbageCollector? Collector);
